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
	"attestd/store"
	"attestd/store/storetest"
)

// frame is the size of a page in a write-ahead log, which begins with a header of 32 bytes.
const frame = 24 + 4096

// overwrite overwrites part of a file with zeros, as another program might.
func overwrite(t *testing.T, path string, at, n int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must.OK(t, err)
	_, err = f.WriteAt(make([]byte, n), at)
	must.OK(t, errors.Join(err, f.Close()))
}

// logCuts are the ways in which the content of a running server's write-ahead log is destroyed;
// size is the size of the log.
var logCuts = map[string]func(t *testing.T, log string, size int64){
	"emptied":                   func(t *testing.T, log string, _ int64) { must.OK(t, os.Truncate(log, 0)) },
	"cut to its header":         func(t *testing.T, log string, _ int64) { must.OK(t, os.Truncate(log, 32)) },
	"cut between two frames":    func(t *testing.T, log string, _ int64) { must.OK(t, os.Truncate(log, 32+2*frame)) },
	"cut within the last frame": func(t *testing.T, log string, size int64) { must.OK(t, os.Truncate(log, size-100)) },
	"emptied and filled with zeros": func(t *testing.T, log string, size int64) {
		must.OK(t, os.Truncate(log, 0))
		must.OK(t, os.Truncate(log, size))
	},
	"zeros at its end":      func(t *testing.T, log string, size int64) { overwrite(t, log, size-frame, frame) },
	"zeros over a frame":    func(t *testing.T, log string, _ int64) { overwrite(t, log, 32+3*frame, frame) },
	"zeros over its header": func(t *testing.T, log string, _ int64) { overwrite(t, log, 0, 32) },
}

// Every record that was acknowledged before or after the write-ahead log of a running server was
// truncated or overwritten is in the database at the end, and the database is valid. A truncation
// is detected by the next write, an overwrite before SQLite copies the log into the database.
func TestTruncatedWALLosesNoAcknowledgedRecord(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the log is not copied")
	}
	for name, cut := range logCuts {
		for _, end := range []string{"closed at once", "written on", "written on for long", "killed"} {
			t.Run(name+", "+end, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "attestd.db")
				var logged bytes.Buffer
				s := openWith(t, path, store.RunOptions{Log: slog.New(slog.NewTextHandler(&logged, nil))})
				c, key := company(t, s, "acme")
				attest(t, s, c, 20)
				cut(t, path+"-wal", got(os.Stat(path+"-wal"))(t).Size())

				known := int64(20)
				write := func() (err error) {
					if _, err = s.Append(ctx, draft(c)); err == nil {
						known++
					}
					return err
				}
				shorter := strings.Contains(name, "cut") || name == "emptied"
				switch end {
				case "written on", "killed":
					if err := write(); shorter && !errors.Is(err, store.ErrFileChanged) {
						t.Errorf("a write answers %v", err)
					}
				case "written on for long":
					var err error
					for n := 0; err == nil && n < 2000; n++ {
						err = write()
					}
					if !errors.Is(err, store.ErrFileChanged) {
						t.Errorf("2,000 writes later: %v", err)
					}
				}
				if end != "killed" {
					if err := s.Close(); !errors.Is(err, store.ErrFileChanged) {
						t.Errorf("close: %v", err)
					}
					if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "-wal was cut short or overwritten") || !strings.Contains(text, "rescued=true") {
						t.Errorf("logged: %s", text)
					}
				} else if !shorter {
					return // nothing has read the log yet
				} else { // after a kill the disk holds the present content
					killed := filepath.Join(t.TempDir(), "attestd.db")
					for _, suffix := range []string{"", "-wal"} {
						must.OK(t, os.WriteFile(killed+suffix, got(os.ReadFile(path+suffix))(t), 0o600))
					}
					path = killed
				}
				left := open(t, path)
				if n := length(t, left, c); n < known || n > known+1 || int64(len(read(t, left, c.Chain, 0, 99_999))) != n {
					t.Errorf("%d records are left of %d", n, known)
				}
				must.OK(t, left.VerifyAll(ctx, "", 1, nil, nil))
				if keys := all(t, left.Credentials.Keys(ctx, by(c, now))); len(keys) != 1 || keys[0].Key != key.Key {
					t.Errorf("keys: %v", keys)
				}
				must.OK(t, left.Check(ctx, schema(t)))
				attest(t, left, c, 5)
			})
		}
	}
}

// A database that is truncated under its server is detected by the next write, and its log is left
// unchanged.
func TestTruncatedDatabaseIsDetected(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the sizes are not compared")
	}
	for _, size := range []int64{0, 4096, 3*4096 + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			s, path := fresh(t)
			c, _ := company(t, s, "acme")
			attest(t, s, c, 20)
			must.OK(t, os.Truncate(path, size))
			log := got(os.ReadFile(path + "-wal"))(t)
			if _, err := s.Append(ctx, draft(c)); !errors.Is(err, store.ErrFileChanged) || !strings.Contains(err.Error(), "attestd.db was cut short") {
				t.Errorf("a write answers %v", err)
			}
			if err := s.Ready(ctx); !errors.Is(err, store.ErrFileChanged) {
				t.Errorf("ready: %v", err)
			}
			if err := s.Close(); !errors.Is(err, store.ErrFileChanged) {
				t.Errorf("close: %v", err)
			}
			if !bytes.Equal(got(os.ReadFile(path+"-wal"))(t), log) || got(os.Stat(path))(t).Size() != size {
				t.Error("the close wrote a file")
			}
		})
	}
}

// Changes that other programs make to the log and the database through SQLite do not count as
// damage.
func TestExternalWALCheckpointIsAllowed(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	for _, statement := range []string{"PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)", "VACUUM", "CREATE TABLE theirs (x)",
		"INSERT INTO theirs VALUES (randomblob(300000))", "DROP TABLE theirs", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		attest(t, s, c, 20)
		must.OK(t, other(t, path, statement).Close())
		attest(t, s, c, 20)
		must.OK(t, s.Ready(ctx))
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	must.OK(t, s.Close())
	s = open(t, path)
	if n := length(t, s, c); n != 360 {
		t.Errorf("%d records", n)
	}
}
