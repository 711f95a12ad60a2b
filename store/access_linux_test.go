package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// A file that others can access past its lock or its owner is refused before anything is written,
// and the error tells the operator what to do.
func TestFilesThatOthersReachAreNotServed(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for name, test := range map[string]struct {
		arrange func(t *testing.T, path string)
		want    string
	}{
		"a second name": {func(t *testing.T, path string) { must.OK(t, os.Link(path, path+".too")) }, "has 2 names"},
		"a second name of the log": {func(t *testing.T, path string) {
			must.OK(t, os.WriteFile(path+"-wal", nil, 0o600))
			must.OK(t, os.Link(path+"-wal", path+".too"))
		}, "-wal has 2 names"},
		"a named pipe": {func(t *testing.T, path string) {
			must.OK(t, os.Remove(path))
			must.OK(t, syscall.Mkfifo(path, 0o600))
		}, "not a plain file"},
		"a folder": {func(t *testing.T, path string) {
			must.OK(t, os.Remove(path))
			must.OK(t, os.Mkdir(path, 0o700))
		}, "not a plain file"},
		"a log that is a link": {func(t *testing.T, path string) {
			must.OK(t, os.Symlink("elsewhere", path+"-wal"))
		}, "not a plain file"},
		"others may write": {func(t *testing.T, path string) { must.OK(t, os.Chmod(path, 0o602)) }, "chmod 600"},
		"others may write the log": {func(t *testing.T, path string) {
			must.OK(t, os.WriteFile(path+"-wal", nil, 0))
			must.OK(t, os.Chmod(path+"-wal", 0o622))
		}, "-wal"},
		"others may write the folder": {func(t *testing.T, path string) { must.OK(t, os.Chmod(filepath.Dir(path), 0o703)) }, "chmod go-w"},
		"a folder such as /tmp":       {func(t *testing.T, path string) { must.OK(t, os.Chmod(filepath.Dir(path), 0o777|os.ModeSticky)) }, "chmod go-w"},
		"a folder, and no database yet": {func(t *testing.T, path string) {
			must.OK(t, os.Remove(path))
			must.OK(t, os.Chmod(filepath.Dir(path), 0o707))
		}, "chmod go-w"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "attestd.db")
			must.OK(t, os.WriteFile(path, got(os.ReadFile("testdata/schema-1.db"))(t), 0o600))
			test.arrange(t, path)
			before := list(t, dir)
			if _, err := store.Open(ctx, path, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), test.want) {
				t.Error(err)
			}
			if files := list(t, dir); files != before {
				t.Errorf("left: %s", files)
			}
		})
	}
}

// A group other than the owner's own counts as others. Only root can create such a file for the
// test.
func TestGroupOtherThanOwnersCountsAsOthers(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	must.OK(t, s.Close())
	must.OK(t, os.Chmod(path, 0o660))
	must.OK(t, os.Chmod(filepath.Dir(path), 0o770))
	if err := os.Chown(path, 4711, 4711); err != nil {
		t.Skip(err)
	}
	if n := open(t, path).Notices(); len(n) != 0 {
		t.Errorf("of the owner's group: %q", n)
	}
	must.OK(t, os.Chown(path, 4711, 4712))
	if _, err := store.Open(ctx, path, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("of another group: %v", err)
	}
}

func TestWorldReadableFileIsServedWithWarning(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	if n := s.Notices(); len(n) != 0 {
		t.Errorf("of a new file: %q", n)
	}
	must.OK(t, s.Close())
	must.OK(t, os.Chmod(path, 0o604))
	if n := open(t, path).Notices(); len(n) != 1 || !strings.Contains(n[0], "chmod 600 "+path) {
		t.Errorf("notices: %q", n)
	}
}

// The file is locked as well as its name: a second server cannot start under another name, after
// the lock file was removed or after the file was moved.
func TestSecondServerRefusedUnderAnotherName(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for name, rename := range map[string]func(t *testing.T, path, other string){
		"a name of its own, the first gone": func(t *testing.T, path, other string) { must.OK(t, os.Link(path, other)); must.OK(t, os.Remove(path)) },
		"moved":                             func(t *testing.T, path, other string) { must.OK(t, os.Rename(path, other)) },
		"the lock file removed": func(t *testing.T, path, other string) {
			must.OK(t, os.Remove(path+".lock"))
			must.OK(t, os.Symlink(path, other))
		},
	} {
		s, path := fresh(t)
		company(t, s, "acme")
		other := filepath.Join(t.TempDir(), "other.db")
		rename(t, path, other)
		if _, err := store.Open(ctx, other, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: %v", name, err)
		}
		if err := restore(t, "testdata/schema-1.db", other, admin.RestoreOptions{Force: true}); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s, restored over: %v", name, err)
		}
		if err := s.Close(); err != nil && !errors.Is(err, store.ErrFileChanged) {
			t.Errorf("%s, closed: %v", name, err)
		}
	}
}

// The lock on the file is independent of SQLite's locks: other programs can read and write while a
// server runs, and closing the file repeatedly in the same process does not release the lock.
func TestLockAllowsOtherPrograms(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	must.OK(t, other(t, path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)").Close())
	for range 3 {
		got(os.ReadFile(path))(t)
		ro, err := store.OpenReadOnly(ctx, path)
		must.OK(t, err)
		must.OK(t, ro.Close())
	}
	attest(t, s, c, 1)
	must.OK(t, os.Remove(path+".lock"))
	if _, err := store.Open(ctx, path, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrInUse) {
		t.Error(err)
	}
	must.OK(t, s.Close())
	open(t, path)
}
