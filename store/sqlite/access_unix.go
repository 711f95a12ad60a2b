//go:build unix

package sqlite

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// PermitsOthers reports whether anyone but the owner has one of the permissions in mask. A group
// with the owner's ID counts as the owner, because systems with such groups let them write by
// default.
func PermitsOthers(info fs.FileInfo, mask fs.FileMode) bool {
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Uid == s.Gid {
		mask &^= 0o070
	}
	return info.Mode().Perm()&mask != 0
}

// links returns the number of hard links to a file.
func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 1
}

// Owner returns the number of the user whose file it is. known is false where there are no such
// numbers.
func Owner(info fs.FileInfo) (uid uint32, known bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, true
}

// writable reports whether files can be created in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
