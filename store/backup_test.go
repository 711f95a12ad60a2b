package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// sample returns a closed database with two companies, which have 300 and 5 records.
func sample(t *testing.T) (path string, acme *store.Company) {
	t.Helper()
	s, path := fresh(t)
	acme, _ = company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	attest(t, s, acme, 300)
	attest(t, s, zoo, 5)
	must.OK(t, s.Close())
	return path, acme
}

// accepted lets a restore replace any existing file.
var accepted = admin.RestoreOptions{Force: true, AcceptRollback: true}

func target(t *testing.T) string { return filepath.Join(t.TempDir(), "out.db") }

// tampered returns a sample in which one record of zoo was changed.
func tampered(t *testing.T) string {
	t.Helper()
	path, _ := sample(t)
	db := other(t, path, append(unguarded, "UPDATE record SET payload = '{}' WHERE id = (2 << 40) + 3", "PRAGMA wal_checkpoint(TRUNCATE)")...)
	must.OK(t, db.Close())
	return path
}

func TestBackupAndRestore(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, acme := sample(t)
	var records int64 // the sum over all logs
	db := other(t, path)
	must.OK(t, db.QueryRow("SELECT count(*) FROM record").Scan(&records))
	must.OK(t, db.Close())
	before := got(os.ReadFile(path))(t)
	out := target(t)
	stages := map[string][2]int64{}
	must.OK(t, admin.Backup(ctx, path, out, schema(t), func(stage string, done, total int64) { stages[stage] = [2]int64{done, total} }))
	if !bytes.Equal(got(os.ReadFile(path))(t), before) {
		t.Error("the backup has changed its source")
	}
	for stage, last := range stages {
		if last[0] != last[1] || last[0] == 0 {
			t.Errorf("stage %s ended at %v", stage, last)
		}
	}
	if stages["verify"][0] != records || records < 305 || len(stages) != 3 {
		t.Errorf("stages: %v", stages)
	}
	if files := list(t, filepath.Dir(out)); files != "out.db" {
		t.Errorf("left: %s", files)
	}
	if info, _ := os.Stat(out); info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("mode %v", info.Mode())
	}

	restored := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, restore(t, out, restored, admin.RestoreOptions{}))
	s := open(t, restored)
	if n := length(t, s, acme); n != 300 {
		t.Errorf("length %d", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	attest(t, s, acme, 1) // the restored log can be extended
	must.OK(t, s.VerifyAll(ctx, "acme", 2, nil, nil))
}

func TestBackupOfALiveDatabase(t *testing.T) {
	testenv.Concurrent(t)
	storetest.AboutFile(t)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	attest(t, s, c, 50)
	var wg sync.WaitGroup
	appending, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if _, err := s.Append(ctx, draft(c)); err != nil {
					t.Error(err)
					return
				}
				once.Do(func() { close(appending) })
			}
		})
	}
	<-appending
	out := target(t)
	must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
	close(end)
	wg.Wait()
	copied, err := store.OpenReadOnly(ctx, out)
	must.OK(t, err)
	defer copied.Close()
	if n := length(t, copied, c); n < 51 {
		t.Errorf("the copy has %d records", n)
	}
	must.OK(t, copied.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

func TestBackupRefuses(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := sample(t)
	text := target(t)
	must.OK(t, os.WriteFile(text, []byte("dear diary"), 0o600))
	for name, out := range map[string]string{"a file": text, "itself": path, "a directory": t.TempDir()} {
		if err := admin.Backup(ctx, path, out, schema(t), nil); !errors.Is(err, store.ErrRefused) {
			t.Errorf("over %s: %v", name, err)
		}
	}
	if s := string(got(os.ReadFile(text))(t)); s != "dear diary" {
		t.Error(s)
	}
	for name, test := range map[string]struct {
		path string
		want error
	}{
		"none":    {target(t), store.ErrNotFound},
		"foreign": {text, store.ErrForeign},
	} {
		if err := admin.Backup(ctx, test.path, target(t), schema(t), nil); !errors.Is(err, test.want) {
			t.Errorf("of %s: %v", name, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	out := target(t)
	if err := admin.Backup(canceled, path, out, schema(t), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if files := list(t, filepath.Dir(out)); files != "" {
		t.Errorf("left: %s", files)
	}
}

// A copy that fails its checks never becomes a file of the requested name.
func TestBackupAndRestoreRequireVerification(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	bad := tampered(t)
	cut, _ := sample(t)
	db := other(t, cut, append(unguarded, "DELETE FROM record WHERE id = (1 << 40) + 299", "PRAGMA wal_checkpoint(TRUNCATE)")...)
	must.OK(t, db.Close())
	unguardedOnly, _ := sample(t)
	must.OK(t, other(t, unguardedOnly, "DROP TRIGGER record_no_update", "PRAGMA wal_checkpoint(TRUNCATE)").Close())
	orphan, _ := sample(t)
	must.OK(t, other(t, orphan, "PRAGMA foreign_keys = 0", "INSERT INTO agent (company, agent_id, registered_at) VALUES (77, 'a', '')", "PRAGMA wal_checkpoint(TRUNCATE)").Close())
	old, acme := sample(t)
	before := got(os.ReadFile(old))(t)

	for name, test := range map[string]struct {
		path    string
		company string
		index   int64
	}{
		"record changed": {bad, "zoo", 3}, "record cut off": {cut, "acme", 299},
		"trigger gone": {path: unguardedOnly}, "orphan": {path: orphan},
	} {
		out := target(t)
		for what, err := range map[string]error{
			"backup":       admin.Backup(ctx, test.path, out, schema(t), nil),
			"restore":      restore(t, test.path, filepath.Join(filepath.Dir(out), "new.db"), admin.RestoreOptions{}),
			"restore over": restore(t, test.path, old, admin.RestoreOptions{Force: true}),
		} {
			v := (*store.VerifyError)(nil)
			if test.company == "" {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			} else if !errors.As(err, &v) || v.Company != test.company || v.Index != test.index || v.Reason == "" {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a backup is there", name)
		}
	}
	if !bytes.Equal(got(os.ReadFile(old))(t), before) {
		t.Error("a refused restore has changed the old database")
	}
	if n := length(t, open(t, old), acme); n != 300 {
		t.Errorf("length %d", n)
	}
}

func TestVerifyAllGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	s, err := store.OpenReadOnly(ctx, tampered(t))
	must.OK(t, err)
	defer s.Close()
	verdicts := map[string]bool{}
	err = s.VerifyAll(ctx, "", 2, func(v store.ChainVerdict) { verdicts[v.Title()] = v.Valid }, nil)
	if v := (*store.VerifyError)(nil); !errors.As(err, &v) || v.Company != "zoo" {
		t.Error(err)
	}
	if len(verdicts) != 5 || !verdicts["log of the companies"] || !verdicts["acme"] || !verdicts["acme (control)"] || verdicts["zoo"] || !verdicts["zoo (control)"] {
		t.Errorf("verdicts: %v", verdicts)
	}
	must.OK(t, s.VerifyAll(ctx, "acme", 2, nil, nil))
	if err := s.VerifyAll(ctx, "nobody", 2, nil, nil); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}

func TestRestoreOverADatabase(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	in, acme := sample(t)
	s, path := fresh(t)
	company(t, s, "old")
	if err := restore(t, in, path, admin.RestoreOptions{}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("without force: %v", err)
	}
	if err := restore(t, in, path, admin.RestoreOptions{Force: true}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("over a served one: %v", err)
	}
	must.OK(t, s.Close())

	stranger := other(t, path)
	must.OK(t, stranger.QueryRow("SELECT 1 FROM company").Scan(new(int)))
	if err := restore(t, in, path, accepted); !errors.Is(err, store.ErrInUse) {
		t.Errorf("under a reader: %v", err)
	}
	must.OK(t, stranger.Close())

	must.OK(t, restore(t, in, path, accepted))
	s = open(t, path)
	if _, err := s.Companies.Get(ctx, "old"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was there before: %v", err)
	}
	if n := length(t, s, acme); n != 300 {
		t.Errorf("length %d", n)
	}
}

// A server that was killed leaves a write-ahead log, which must not be replayed into the file that
// is restored in place of its database.
func TestRestoreOverAKilledServersFiles(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	in, acme := sample(t)
	s, path := fresh(t)
	c, _ := company(t, s, "old")
	attest(t, s, c, 20)
	killed := asKilled(t, path)
	must.OK(t, restore(t, in, killed, accepted))
	s = open(t, killed)
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	if n := length(t, s, acme); n != 300 {
		t.Errorf("length %d", n)
	}

	// The same holds if the database was removed and only the write-ahead log is left.
	orphan := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(orphan+"-wal", got(os.ReadFile(path+"-wal"))(t), 0o600))
	if err := restore(t, in, orphan, admin.RestoreOptions{}); !errors.Is(err, store.ErrRefused) {
		t.Errorf("beside a log: %v", err)
	}
	must.OK(t, restore(t, in, orphan, accepted))
	must.OK(t, open(t, orphan).VerifyAll(ctx, "", 2, nil, nil))
}

// A restore replaces a database that cannot be opened any more, and leaves files of other programs
// alone.
func TestRestoreOverDamage(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	in, acme := sample(t)
	damaged, _ := sample(t)
	must.OK(t, os.WriteFile(damaged, scribble(got(os.ReadFile(damaged))(t), 100, 9000), 0o600))
	must.OK(t, os.WriteFile(damaged+"-wal", []byte("remains"), 0o600))
	must.OK(t, restore(t, in, damaged, accepted))
	if n := length(t, open(t, damaged), acme); n != 300 {
		t.Errorf("length %d", n)
	}
	foreign := target(t)
	must.OK(t, os.WriteFile(foreign, []byte("dear diary"), 0o600))
	for _, force := range []bool{false, true} {
		if err := restore(t, in, foreign, admin.RestoreOptions{Force: force}); !errors.Is(err, store.ErrForeign) {
			t.Errorf("over a foreign file: %v", err)
		}
		if err := restore(t, foreign, target(t), admin.RestoreOptions{Force: force}); !errors.Is(err, store.ErrForeign) {
			t.Errorf("of a foreign file: %v", err)
		}
	}
	empty := target(t)
	must.OK(t, os.WriteFile(empty, nil, 0o644))
	must.OK(t, restore(t, in, empty, admin.RestoreOptions{}))
	if n := length(t, open(t, empty), acme); n != 300 {
		t.Errorf("over an empty file: length %d", n)
	}
}

// A power failure during a write leaves a rollback journal; opening the file rolls the write back.
func TestOpenRollsBack(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	path, acme := sample(t)
	db := other(t, path, "PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1")
	tx, err := db.Begin()
	must.OK(t, err)
	for _, statement := range append(unguarded, "UPDATE record SET payload = '{}'") {
		_, err := tx.Exec(statement)
		must.OK(t, err)
	}
	cut := target(t)
	for _, suffix := range []string{"", "-journal"} {
		must.OK(t, os.WriteFile(cut+suffix, got(os.ReadFile(path+suffix))(t), 0o600))
	}
	must.OK(t, tx.Rollback())
	s := open(t, cut)
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
	attest(t, s, acme, 1)
}
