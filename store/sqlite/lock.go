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
// It consists of two locks. The lock on a file next to the database applies to the name, and works
// before the database exists. The lock on the database itself applies to the inode, so that a hard
// link, a moved file or a removed lock file does not bypass it. On systems without such a lock,
// only the name is locked.
type Lock struct {
	name *flock.Flock
	// holds the lock on the database; nil before LockFile, and on systems without such a lock
	file *os.File
}

// LockName locks the name path with a file next to it, or returns ErrInUse. The lock file is never
// removed, because a third process could then lock a new file while a second one waits for the
// removed one.
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

// LockFile locks the database at path itself, if it exists, or returns ErrInUse.
func (l *Lock) LockFile(path string) (err error) {
	if l.file, err = openLocked(path); errors.Is(err, errLocked) {
		return inUse(path)
	}
	return err
}

// Unlock releases both locks. The caller MUST call it after SQLite has closed the database.
func (l *Lock) Unlock() error {
	var err error
	if l.file != nil {
		err = closeLocked(l.file)
	}
	return errors.Join(err, l.name.Unlock())
}

// closeLocked closes a file from openLocked. It releases the lock explicitly, because a child
// process that is just starting has a copy of the descriptor, and with it the lock.
func closeLocked(f *os.File) error { return errors.Join(unlockInode(f), f.Close()) }

func inUse(path string) error { return fmt.Errorf("%w: another process serves %s", ErrInUse, path) }

var errLocked = errors.New("locked")

// openLocked opens the file at path and locks its inode until the file is closed. It returns
// errLocked if another process holds the lock. The file is nil on systems without such a lock.
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

// LockAlone locks a file that this process is still writing, so that others can see whether its
// writer lives. It returns ErrInUse if another process has locked it. On systems without such a
// lock, isLocked is false.
func LockAlone(path string) (release func(), isLocked bool, err error) {
	f, err := openLocked(path)
	if errors.Is(err, errLocked) {
		return nil, false, inUse(path)
	}
	if err != nil || f == nil {
		return func() {}, false, err
	}
	return func() { _ = closeLocked(f) }, true, nil
}
