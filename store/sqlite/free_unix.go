//go:build linux || darwin

package sqlite

import (
	"path/filepath"
	"syscall"
)

// FreeSpace returns the bytes that the file system of a database has left for this process. ok is
// false where the system does not say.
func FreeSpace(path string) (bytes int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &s); err != nil {
		return 0, false
	}
	return int64(min(s.Bavail, 1<<40)) * int64(s.Bsize), true
}
