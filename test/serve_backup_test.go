package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A backup under way ends with its server, stopped or killed, and leaves nothing. The next server
// makes one.
func TestBackupEndsWithItsServer(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced, testenv.Plain)
	storetest.AboutFile(t)
	t.Parallel()
	dir, place := t.TempDir(), t.TempDir()
	must.OK(t, os.Chmod(place, 0o700))
	db := filepath.Join(dir, "attestd.db")
	// until waits for a file with a part of a copy, or for its end.
	until := func(there bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			found := false
			for _, folder := range []string{dir, place} {
				entries, err := os.ReadDir(folder)
				must.OK(t, err)
				for _, e := range entries {
					found = found || strings.Contains(e.Name(), ".tmp-") || strings.HasSuffix(e.Name(), ".partial")
				}
			}
			if found == there {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("a part of a copy is there: %v", found)
			}
		}
	}
	for _, end := range []func(*service) error{(*service).kill, (*service).interrupt} {
		s := serve(t, db, "--backup-to", place, "--backup-rate", "64KiB")
		until(true)
		must.OK(t, end(s))
		until(false)
	}
	s := serve(t, db, "--backup-to", place)
	for deadline := time.Now().Add(patience); !strings.Contains(s.log.String(), "backed up and verified"); {
		if time.Now().After(deadline) {
			t.Fatal("no backup was made")
		}
	}
	must.OK(t, s.interrupt())
	out, err := attestd(t, "backup", "list", "--backup-to", place)
	must.OK(t, err)
	if strings.Count(out, "done\n") != 1 || strings.Count(out, "\n") != 1 {
		t.Errorf("there: %s", out)
	}
}
