//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

// FreeRoom returns the bytes that this user may still write to the file system of a folder, and its
// size. isKnown is false on systems that do not say.
func FreeRoom(dir string) (free, size int64, isKnown bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), true
}
