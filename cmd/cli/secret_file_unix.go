//go:build unix

package cli

import (
	"io/fs"
	"os"
	"syscall"
)

// ownerOf returns the user to whom a file belongs.
func ownerOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid)
	}
	return os.Geteuid()
}
