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

// IsLocked reports whether a process has locked the inode of the file at path. It takes no lock,
// not even for a moment. known is false on systems without such a lock.
func IsLocked(path string) (locked, known bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	found := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: lockByte, Len: 1}
	switch err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &found); {
	case errors.Is(err, unix.EINVAL):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	return found.Type != unix.F_UNLCK, true, nil
}

func setLock(f *os.File, kind int16) error {
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK,
		&unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: lockByte, Len: 1})
}
