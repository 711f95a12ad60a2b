package sqlite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FileSystemOf returns the file system of a file or folder.
func FileSystemOf(path string) (FileSystem, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return FileSystem{}, fmt.Errorf("file system of %s: %w", path, err)
	}
	f := FileSystem{Name: unix.ByteSliceToString(s.Fstypename[:])}
	if s.Flags&unix.MNT_LOCAL == 0 {
		f.Reliance, f.why = Network, sharesNothing
	}
	return f, nil
}
