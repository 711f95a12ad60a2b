package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// replaced are the ways in which the files of a running server are moved, removed or replaced. Each
// describes the change and returns the path of the database that the server had open, or "" if it
// is gone.
var replaced = map[string]func(t *testing.T, path, older string) (happened, stands string){
	"moved": func(t *testing.T, path, _ string) (string, string) {
		must.OK(t, os.Rename(path, path+".moved"))
		return path + " was moved or deleted", path + ".moved"
	},
	"moved with its log": func(t *testing.T, path, _ string) (string, string) {
		must.OK(t, os.Rename(path, path+".moved"))
		must.OK(t, os.Rename(path+"-wal", path+".moved-wal"))
		return path + " was moved or deleted", path + ".moved"
	},
	"replaced by an older copy": func(t *testing.T, path, older string) (string, string) {
		must.OK(t, os.Rename(older, path))
		return "another file stands at " + path, ""
	},
	"moved, and replaced by an older copy": func(t *testing.T, path, older string) (string, string) {
		must.OK(t, os.Rename(path, path+".moved"))
		must.OK(t, os.Rename(older, path))
		return "another file stands at " + path, path + ".moved"
	},
	"log deleted": func(t *testing.T, path, _ string) (string, string) {
		must.OK(t, os.Remove(path+"-wal"))
		return path + "-wal was moved or deleted", path
	},
	"log replaced": func(t *testing.T, path, _ string) (string, string) {
		must.OK(t, os.Rename(path+"-wal", path+"-wal.moved"))
		must.OK(t, os.WriteFile(path+"-wal", []byte("not ours"), 0o600))
		return "another file stands at " + path + "-wal", path
	},
}

// Once the database or its log is no longer where the server opened it, no method acknowledges a
// write, the log reports the reason once, and reads continue. At the end every acknowledged record
// is in the database that was open, and no file of another program was changed.
func TestNothingIsAcknowledgedIntoReplacedFile(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files that are open can neither be moved nor replaced")
	}
	for name, replace := range replaced {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "attestd.db")
			var logged bytes.Buffer
			s := openWith(t, path, store.RunOptions{Log: slog.New(slog.NewTextHandler(&logged, nil))})
			c, key := company(t, s, "acme")
			attest(t, s, c, 10)
			older := path + ".older"
			must.OK(t, admin.Backup(ctx, path, older, schema(t), nil))
			attest(t, s, c, 10)

			happened, stands := replace(t, path, older)
			for range 3 {
				if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrFileChanged) || !strings.Contains(fmt.Sprint(err), happened) {
					t.Errorf("append: %v", err)
				}
				if _, err := s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000); !errors.Is(err, store.ErrFileChanged) {
					t.Errorf("another write: %v", err)
				}
			}
			if n := length(t, s, c); n != 20 || len(read(t, s, c.Chain, 0, 99)) != 20 {
				t.Errorf("%d records can be read", n)
			}
			must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
			if keys := all(t, s.Credentials.Keys(ctx, by(c, now))); len(keys) != 1 || keys[0].Key != key.Key {
				t.Errorf("keys: %v", keys)
			}
			if err := s.Close(); !errors.Is(err, store.ErrFileChanged) {
				t.Errorf("close: %v", err)
			}
			if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, happened) || !strings.Contains(text, "rescued=true") {
				t.Errorf("logged: %s", text)
			}

			if name == "log replaced" {
				if other := string(got(os.ReadFile(path + "-wal"))(t)); other != "not ours" {
					t.Errorf("the other log: %q", other)
				}
				must.OK(t, os.Remove(path+"-wal"))
			}
			if name == "moved with its log" { // their names belong together
				must.OK(t, os.Remove(path+"-shm"))
			}
			if stands != "" {
				left := open(t, stands)
				if n := length(t, left, c); n != 20 {
					t.Errorf("%d records are left", n)
				}
				must.OK(t, left.VerifyAll(ctx, "", 1, nil, nil))
				must.OK(t, left.Close())
			}
			if strings.Contains(name, "older copy") { // none of our logs matches it
				next := open(t, path)
				if n := length(t, next, c); n != 10 {
					t.Errorf("the copy has %d records", n)
				}
				must.OK(t, next.VerifyAll(ctx, "", 1, nil, nil))
				attest(t, next, c, 1)
			}
		})
	}
}

// A database that was moved, and then written by another program, is not changed by the server that
// had it open, because its write-ahead log no longer matches.
func TestCloseLeavesForeignWrites(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be moved")
	}
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	// The statement adds no page to the file: the other program, which runs in this process, would
	// look for the page in our log.
	attest(t, s, c, 1)
	moved := filepath.Join(t.TempDir(), "moved.db")
	must.OK(t, os.Rename(path, moved))
	must.OK(t, other(t, moved, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (randomblob(100000))").Close())
	before := got(os.ReadFile(moved))(t)
	log := got(os.ReadFile(path + "-wal"))(t)
	if err := s.Close(); !errors.Is(err, store.ErrFileChanged) || !strings.Contains(err.Error(), "could not be moved") {
		t.Errorf("close: %v", err)
	}
	if !bytes.Equal(got(os.ReadFile(moved))(t), before) || !bytes.Equal(got(os.ReadFile(path+"-wal"))(t), log) {
		t.Error("the close wrote a file")
	}
}
