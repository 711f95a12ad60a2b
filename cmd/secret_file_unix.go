//go:build unix

package cmd

import (
	"io/fs"
	"syscall"
)

func ownedByRoot(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Uid == 0
}
