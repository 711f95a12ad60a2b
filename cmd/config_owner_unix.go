//go:build unix

package cmd

import (
	"io/fs"
	"os"
	"syscall"
)

// isOwn reports whether a file belongs to root or to the user of this process.
func isOwn(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (stat.Uid == 0 || int(stat.Uid) == os.Geteuid())
}
