//go:build unix

package backups

import (
	"os"
	"syscall"
)

// sameDisk reports whether two folders are on one file system.
func sameDisk(a, b string) bool {
	first, err := os.Stat(a)
	second, failed := os.Stat(b)
	if err != nil || failed != nil {
		return true
	}
	x, ok := first.Sys().(*syscall.Stat_t)
	y, also := second.Sys().(*syscall.Stat_t)
	return !ok || !also || x.Dev == y.Dev
}
