package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

func TestNewFileIsPrivateToOwner(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	company(t, s, "acme")
	if d := s.Domain(); d.Service != "service" || d.TrustDomain != "attestd.local" {
		t.Errorf("domain of a new file: %+v", d)
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		info, err := os.Stat(path + suffix)
		must.OK(t, err)
		if mode := info.Mode().Perm(); mode != 0o600 && runtime.GOOS != "windows" {
			t.Errorf("mode of the database%s: %o", suffix, mode)
		}
	}
	must.OK(t, s.Close())
	if files := list(t, filepath.Dir(path)); files != "attestd.db attestd.db.lock" {
		t.Errorf("files after a clean stop: %s", files)
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestNamesThatNeedEscaping(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	for _, name := range []string{"a b.db", "50%.db", "what?mode=memory.db", "x#y.db", "ü&_pragma=x.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := open(t, path)
		company(t, s, "acme")
		must.OK(t, s.Close())
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestEmptyFileIsNewDatabase(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(path, nil, 0o644))
	s := open(t, path)
	company(t, s, "acme")
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %v", info.Mode())
	}
}

func TestDomainIsFixedAtFirstStart(t *testing.T) {
	t.Parallel()
	path := storetest.New(t)
	s, err := store.Open(ctx, path, schema(t), store.Options{Domain: cred.Domain{TrustDomain: "example.org", Service: "notary"}})
	must.OK(t, err)
	must.OK(t, s.Close())
	for name, d := range map[string]cred.Domain{
		"neither": {}, "both": {TrustDomain: "example.org", Service: "notary"}, "one": {Service: "notary"},
	} {
		s, err := store.Open(ctx, path, schema(t), store.Options{Domain: d})
		must.OK(t, err)
		if s.Domain() != (cred.Domain{TrustDomain: "example.org", Service: "notary"}) {
			t.Errorf("%s: %+v", name, s.Domain())
		}
		must.OK(t, s.Close())
	}
	for _, d := range []cred.Domain{{Service: "service"}, {TrustDomain: "attestd.local"}} {
		if _, err := store.Open(ctx, path, schema(t), store.Options{Domain: d}); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "notary") {
			t.Errorf("%+v: %v", d, err)
		}
	}
	bad := storetest.New(t)
	if _, err := store.Open(ctx, bad, schema(t), store.Options{Domain: cred.Domain{Service: "Not A Name"}}); err == nil {
		t.Error("a bad service name was taken")
	}
	if storetest.OnPostgres() {
		open(t, bad) // the failed start left it empty
	} else if _, err := os.Stat(bad); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused start left a file: %v", err)
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		link = path // creating links needs a privilege here
	}
	for _, p := range []string{path, link} {
		if _, err := store.Open(ctx, p, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrInUse) {
			t.Errorf("%s: %v", p, err)
		}
	}
	company(t, s, "acme") // the first server is unaffected
	must.OK(t, s.Close())
	open(t, path)
}

// A file that is foreign, too new or damaged stays unchanged to the byte, and nothing is created
// next to it.
func TestFilesThatAreRefused(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	ours := func(t *testing.T, statements ...string) []byte {
		s, path := fresh(t)
		c, _ := company(t, s, "acme")
		attest(t, s, c, 300)
		must.OK(t, s.Close())
		db := other(t, path, append(statements, "PRAGMA wal_checkpoint(TRUNCATE)")...)
		must.OK(t, db.Close())
		return got(os.ReadFile(path))(t)
	}
	foreign := func(t *testing.T, mode string) []byte {
		path := filepath.Join(t.TempDir(), "other.db")
		db := other(t, path, "PRAGMA journal_mode = "+mode, "CREATE TABLE record (id INTEGER PRIMARY KEY)")
		must.OK(t, db.Close())
		return got(os.ReadFile(path))(t)
	}
	for name, test := range map[string]struct {
		content []byte
		want    error
	}{
		"text":                      {[]byte("dear diary\n"), store.ErrForeign},
		"long text":                 {bytes.Repeat([]byte("dear diary\n"), 1000), store.ErrForeign},
		"another's database":        {foreign(t, "DELETE"), store.ErrForeign},
		"another's in WAL mode":     {foreign(t, "WAL"), store.ErrForeign},
		"newer":                     {ours(t, "PRAGMA user_version = 999"), store.ErrNewer},
		"older than the first":      {ours(t, "PRAGMA user_version = 0"), store.ErrCorrupt},
		"a table gone":              {ours(t, "DROP TABLE agent"), store.ErrCorrupt},
		"settings gone":             {ours(t, "DELETE FROM setting"), store.ErrCorrupt},
		"magic and nothing else":    {[]byte("SQLite format 3\x00"), store.ErrCorrupt},
		"first page only":           {ours(t)[:4096], store.ErrCorrupt},
		"schema overwritten":        {scribble(ours(t), 100, 4096), store.ErrCorrupt},
		"everything but the header": {scribble(ours(t), 4096, 1<<20), store.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "attestd.db")
			must.OK(t, os.WriteFile(path, test.content, 0o640))
			_, err := store.Open(ctx, path, schema(t), store.Options{Master: master()})
			if !errors.Is(err, test.want) {
				t.Errorf("Open: %v", err)
			}
			if _, err := store.OpenReadOnly(ctx, path); !errors.Is(err, test.want) {
				t.Errorf("OpenReadOnly: %v", err)
			}
			if !bytes.Equal(got(os.ReadFile(path))(t), test.content) {
				t.Error("the file has changed")
			}
			if files := list(t, dir); files != "attestd.db" {
				t.Errorf("left beside it: %s", files)
			}
		})
	}
}

func scribble(b []byte, from, to int) []byte {
	for i := from; i < min(to, len(b)); i++ {
		b[i] = 0xa5
	}
	return b
}

// A write-ahead log that outlived its database would be replayed into a new one.
func TestOrphanedWALIsNotReplayed(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(path+"-wal", []byte("what is left"), 0o600))
	if _, err := store.Open(ctx, path, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrRefused) || !strings.Contains(err.Error(), "-wal") {
		t.Error(err)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, key := company(t, s, "acme")
	attest(t, s, c, 3)

	beside, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	attest(t, s, c, 2) // later commits are seen as well
	if n := length(t, beside, c); n != 5 {
		t.Errorf("beside a writer: length %d", n)
	}
	must.OK(t, beside.Unseal(master()))
	if k, err := beside.Credentials.FirstKey(ctx, "acme"); err != nil || k.Key != key.Key {
		t.Errorf("first key: %v, %v", k, err)
	}
	if _, err := beside.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000); !errors.Is(err, store.ErrRefused) {
		t.Errorf("write: %v", err)
	}
	must.OK(t, beside.Close())
	attest(t, s, c, 1)
	must.OK(t, s.Close())

	content := func() map[string]string {
		all := storetest.Content(t, path)
		// SQLite may leave an empty log.
		maps.DeleteFunc(all, func(name, _ string) bool { return strings.HasSuffix(name, "-wal") || strings.HasSuffix(name, "-shm") })
		return all
	}
	before := content()
	alone, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	if n := length(t, alone, c); n != 6 {
		t.Errorf("without a writer: length %d", n)
	}
	must.OK(t, alone.Close())
	if !maps.Equal(content(), before) {
		t.Error("reading has changed the database")
	}
	open(t, path)
}

// asKilled copies the files at path as they are on disk at this moment to a place where no process
// holds a lock.
func asKilled(t *testing.T, path string) string {
	t.Helper()
	killed := filepath.Join(t.TempDir(), "attestd.db")
	for _, suffix := range []string{"", "-wal"} {
		must.OK(t, os.WriteFile(killed+suffix, got(os.ReadFile(path+suffix))(t), 0o600))
	}
	return killed
}

func TestOpenAfterAKill(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 20)
	killed := asKilled(t, path)
	before := got(os.ReadFile(killed))(t)
	ro, err := store.OpenReadOnly(ctx, killed)
	must.OK(t, err)
	if n := length(t, ro, c); n != 20 {
		t.Errorf("reading: length %d", n)
	}
	must.OK(t, ro.Close())
	if !bytes.Equal(got(os.ReadFile(killed))(t), before) {
		t.Error("reading has changed the file")
	}
	s = open(t, killed)
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	attest(t, s, c, 1)

	// The header of the file has the old version; only the write-ahead log has the newer one.
	other(t, path, "PRAGMA user_version = 999")
	newer := asKilled(t, path)
	before = got(os.ReadFile(newer))(t)
	if _, err := store.Open(ctx, newer, schema(t), store.Options{Master: master()}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("newer: %v", err)
	}
	if !bytes.Equal(got(os.ReadFile(newer))(t), before) {
		t.Error("the newer file has changed")
	}
}

// A copy made with cp, or a restored file, is in SQLite's rollback mode; serving it switches it to
// WAL mode again.
func TestOpenSetsWALAgain(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	must.OK(t, s.Close())
	must.OK(t, other(t, path, "PRAGMA journal_mode = DELETE").Close())
	s = open(t, path)
	company(t, s, "acme")
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Error(err)
	}
}

// During a long read the write-ahead log cannot be reset, so it grows with every write. Afterwards
// it does not keep its peak size.
func TestWALShrinksAfterBurst(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	size := func() int64 { return got(os.Stat(path + "-wal"))(t).Size() }
	write := func(bytes int) {
		t.Helper()
		e := extension(c.Chain, tip(t, s, c), 1)
		e.Records[0].Payload = []byte(strings.Repeat("x", bytes))
		must.OK(t, s.Extend(e))
	}
	reader := got(other(t, path).Begin())(t)
	must.OK(t, reader.QueryRow("SELECT count(*) FROM record").Scan(new(int)))
	for range 8 {
		write(4 << 20)
	}
	if n := size(); n < 32<<20 {
		t.Fatalf("the log has grown to %d bytes only", n)
	}
	must.OK(t, reader.Rollback())
	for range 2 { // the first write ends with a checkpoint, the second resets the log
		write(1000)
	}
	if n := size(); n > 24<<20 {
		t.Errorf("the log keeps %d bytes", n)
	}
}
