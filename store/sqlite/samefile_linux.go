package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookAt reports whether the file at path is the one that was opened, and its size. It reads no
// more, because reading the times of a file, as os.Stat does, gives the next write new times, so
// that the sync after it must write the inode too (multigrain timestamps, Linux 6.13). Before each
// commit, that would cost a single caller a tenth of its rate.
func lookAt(path string, opened os.FileInfo) (same bool, size int64, err error) {
	var now unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_SIZE, &now)
	was, known := opened.Sys().(*syscall.Stat_t)
	// old kernels, and filters that do not know the call
	if !known || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		now, err := os.Stat(path)
		if err != nil {
			return false, 0, err
		}
		return os.SameFile(now, opened), now.Size(), nil
	}
	if err != nil {
		return false, 0, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return now.Ino == was.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == uint64(was.Dev), int64(now.Size), nil
}
