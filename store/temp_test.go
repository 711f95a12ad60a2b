package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/storetest"
)

// A backup that was killed leaves a copy of every key. The next backup, restore or start in that
// directory removes the copy, but no file of another program and none that is in use.
func TestLeftoversOfKilledCommandsAreRemoved(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it takes a day")
	}
	path, _ := sample(t)
	whole := got(os.ReadFile(path))(t)
	partial := append(make([]byte, 4096), whole[4096:8192]...) // SQLite writes the first page last
	for name, run := range map[string]func(t *testing.T, dir string) string{
		"backup": func(t *testing.T, dir string) string {
			must.OK(t, admin.Backup(ctx, path, filepath.Join(dir, "next.db"), schema(t), nil))
			return "next.db"
		},
		"restore": func(t *testing.T, dir string) string {
			must.OK(t, restore(t, path, filepath.Join(dir, "next.db"), admin.RestoreOptions{}))
			return "next.db next.db.lock"
		},
		"start": func(t *testing.T, dir string) string {
			must.OK(t, open(t, filepath.Join(dir, "next.db")).Close())
			return "next.db next.db.lock"
		},
	} {
		dir := t.TempDir()
		put := func(name string, content []byte) { must.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600)) }
		put("out.db.tmp-123", whole)
		put("out.db.tmp-123-wal", []byte("log"))
		put("out.db.tmp-456", partial)
		put("out.db.tmp-456-journal", []byte("journal"))
		put("out.db.tmp-7", nil)
		yesterday := time.Now().Add(-25 * time.Hour)
		must.OK(t, os.Chtimes(filepath.Join(dir, "out.db.tmp-7"), yesterday, yesterday))
		kept := "a.db a.tmp-x b.tmp-1 c.tmp-2 d.tmp-3"
		put("a.db", whole)
		put("a.tmp-x", whole)
		put("b.tmp-1", []byte("a text of someone"))
		put("c.tmp-2", nil) // its creator may be about to lock it
		must.OK(t, os.Mkdir(filepath.Join(dir, "d.tmp-3"), 0o700))
		if want, files := kept+" "+run(t, dir), list(t, dir); files != want {
			t.Errorf("%s: there is %s, want %s", name, files, want)
		}
	}
}

// The file of a backup in progress is not removed.
func TestTwoBackupsIntoOneFolder(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	path, _ := sample(t)
	dir := t.TempDir()
	seen := map[string]bool{}
	must.OK(t, admin.Backup(ctx, path, filepath.Join(dir, "first.db"), schema(t), func(step string, _, _ int64) {
		if !seen[step] {
			seen[step] = true
			must.OK(t, admin.Backup(ctx, path, filepath.Join(dir, fmt.Sprintf("second-%d.db", len(seen))), schema(t), nil))
		}
	}))
	s, err := store.OpenReadOnly(ctx, filepath.Join(dir, "first.db"))
	must.OK(t, err)
	defer s.Close()
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}

// A start that was killed after it gave a new database its name and before it removed the temporary
// name leaves one file with two names. The next start removes the temporary name.
func TestStartAfterKilledCreation(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it takes a day")
	}
	s, path := fresh(t)
	must.OK(t, s.Close())
	must.OK(t, os.Link(path, path+".tmp-99"))
	open(t, path)
}
