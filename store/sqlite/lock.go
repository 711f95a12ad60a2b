package sqlite

import (
	"errors"
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// Lock makes this process the only server of a database. Two servers would each trust their own
// heads.
//
// It is two locks. The one on the file beside the database goes by name, and is there before the
// database is. The one on the database itself goes by inode: a second name, a moved file or a
// removed lock file does not get past it. Where the system has no such lock, the name alone is
// locked.
type Lock struct {
	name *flock.Flock
	// holds the lock on the database; nil before LockFile, and where there is no such lock
	file *os.File
}

// LockName locks the name path, with a file beside it: ErrInUse. The lock file stays when the lock
// goes: to remove it would let a third process lock a file that a second still waits for.
func LockName(path string) (*Lock, error) {
	l := flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, inUse(path)
	}
	return &Lock{name: l}, nil
}

// LockFile locks the database at path itself, when it is there: ErrInUse.
func (l *Lock) LockFile(path string) (err error) {
	if l.file, err = openLocked(path); errors.Is(err, errLocked) {
		return inUse(path)
	}
	return err
}

// Unlock releases both locks. It is called when SQLite has closed the database.
func (l *Lock) Unlock() error {
	var err error
	if l.file != nil {
		err = closeLocked(l.file)
	}
	return errors.Join(err, l.name.Unlock())
}

// closeLocked closes a file that openLocked opened. The end of the lock is said aloud, for a
// process that is just being started has a copy of the file, and with it of the lock.
func closeLocked(f *os.File) error { return errors.Join(unlockInode(f), f.Close()) }

func inUse(path string) error { return fmt.Errorf("%w: another process serves %s", ErrInUse, path) }

var errLocked = errors.New("locked")

// openLocked opens the file at path and locks it, under whatever name others may know it, until it
// is closed: errLocked when another has the lock. The file is nil where there is no such lock.
func openLocked(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err = lockInode(f); err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
