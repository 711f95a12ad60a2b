package store

import (
	"fmt"
	"os"

	"github.com/gofrs/flock"
)

// lock takes the lock that makes this process the only server of the file at path. Two servers would each trust their own heads.
// The lock file stays when the lock goes: to remove it would let a third process lock a file that a second still waits for.
func lock(path string) (*flock.Flock, error) {
	l := flock.New(path+".lock", flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, fmt.Errorf("%w: another process serves %s", ErrInUse, path)
	}
	return l, nil
}
