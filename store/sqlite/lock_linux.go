package sqlite

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// lockByte is the byte that lockInode locks: far from those that SQLite locks (around 1 GiB), and
// beyond the end of any file.
const lockByte = 1 << 62

// lockInode locks the file behind f until f is closed. It returns errLocked or
// errors.ErrUnsupported. It uses an open file description lock (fcntl(2)), so that closing another
// descriptor of the file does not release it.
func lockInode(f *os.File) error {
	err := setLock(f, unix.F_WRLCK)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EACCES):
		return errLocked
	case errors.Is(err, unix.EINVAL): // a system that looks like Linux, but has only POSIX locks
		return errors.ErrUnsupported
	}
	return err
}

func unlockInode(f *os.File) error { return setLock(f, unix.F_UNLCK) }

func setLock(f *os.File, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK,
		&unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: lockByte, Len: 1})
}
