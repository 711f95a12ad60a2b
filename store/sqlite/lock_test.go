package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// A name can be locked before the database exists, by one holder at a time; the lock file stays
// when the lock is released.
func TestNameLockIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	first, err := LockName(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockName(path); !errors.Is(err, ErrInUse) {
		t.Errorf("a second holder: %v", err)
	}
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".lock"); err != nil {
		t.Error(err)
	}
	next, err := LockName(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// The lock on a database also applies under its other names, and lasts as long as its holder wants,
// even if another part of the process closes the file.
func TestFileLockIsExclusive(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere the name alone is locked")
	}
	path := filepath.Join(t.TempDir(), "a.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := path + ".too"
	if err := os.Link(path, other); err != nil {
		t.Fatal(err)
	}
	lock := func(path string) (*Lock, error) {
		t.Helper()
		l, err := LockName(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Unlock() })
		return l, l.LockFile(path)
	}
	first, err := lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err != nil { // this opens and closes the file
		t.Fatal(err)
	}
	second, err := lock(other)
	if !errors.Is(err, ErrInUse) {
		t.Errorf("by its other name: %v", err)
	}
	if err := first.Unlock(); err != nil {
		t.Error(err)
	}
	if err := second.LockFile(other); err != nil {
		t.Errorf("after it was released: %v", err)
	}
}
