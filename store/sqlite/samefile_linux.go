package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// sameFile reports whether the file at path is the one that was opened. It asks for device and inode alone: where somebody asks for
// the times of a file, as os.Stat does, the next write gives it times of their own, and the sync after it takes the inode along
// (multigrain timestamps, Linux 6.13). Before each commit, that would cost a lone caller a tenth of its rate.
func sameFile(path string, opened os.FileInfo) (bool, error) {
	var now unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &now)
	was, known := opened.Sys().(*syscall.Stat_t)
	if !known || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // of old kernels, and filters that do not know the call
		now, err := os.Stat(path)
		return err == nil && os.SameFile(now, opened), err
	}
	if err != nil {
		return false, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return now.Ino == was.Ino && unix.Mkdev(now.Dev_major, now.Dev_minor) == uint64(was.Dev), nil
}
