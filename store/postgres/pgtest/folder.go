package pgtest

import (
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// folder is the folder of one server. It is locked while this process lives, so an unlocked one was
// left by a killed test.
type folder struct {
	path string
	lock *flock.Flock
}

// newFolder creates a folder, and removes its siblings that killed tests have left.
func newFolder() (*folder, error) {
	parent := memory()
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent)
	path, err := os.MkdirTemp(parent, "pgtest-")
	if err != nil {
		return nil, err
	}
	f := &folder{path, flock.New(filepath.Join(path, "new"))}
	if err := f.lock.Lock(); err != nil {
		f.remove()
		return nil, err
	}
	// the file never has this name while it is unlocked
	if err := os.Rename(f.in("new"), f.in("lock")); err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

func (f *folder) in(name string) string { return filepath.Join(f.path, name) }

func (f *folder) remove() {
	os.RemoveAll(f.path)
	f.lock.Close()
}

// sweep removes the folders that killed tests have left. Those that it may not open belong to other
// users.
func sweep(parent string) {
	locks, _ := filepath.Glob(filepath.Join(parent, "pgtest-*", "lock"))
	for _, path := range locks {
		lock := flock.New(path, flock.SetFlag(os.O_RDONLY))
		if free, err := lock.TryLock(); err == nil && free {
			os.RemoveAll(filepath.Dir(path))
		}
		lock.Close()
	}
}
