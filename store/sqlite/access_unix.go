//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// OthersMay says whether anyone but the owner has one of the permissions of mask. A group with the
// owner's number is the owner's own: systems that give each user such a group let it write by
// default.
func OthersMay(info fs.FileInfo, mask fs.FileMode) bool {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == s.Gid {
		mask &^= 0o070
	}
	return info.Mode().Perm()&mask != 0
}

// links is the number of names of a file.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// writable says whether files can be laid into a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
