package test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A backup that is killed at any moment costs none that was done, and the next one removes what it
// has left. Every backup that is done verifies.
func TestKilledBackupCostsNone(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced, testenv.Plain)
	storetest.AboutFile(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	dir, place := t.TempDir(), t.TempDir()
	must.OK(t, os.Chmod(place, 0o700))
	db := filepath.Join(dir, "attestd.db")
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	path, err := binary(t)
	must.OK(t, err)
	const keep = 2
	backup := func(after time.Duration) (took time.Duration, done bool) {
		c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`, nil)
		cmd := exec.Command(path, "backup", "--backup-to", place, "--backup-keep", "2", "--db", db)
		start := time.Now()
		must.OK(t, cmd.Start())
		killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		done = cmd.Wait() == nil
		killer.Stop()
		return time.Since(start), done
	}
	whole, ended := backup(patience)
	if !ended {
		t.Fatal("the first backup failed")
	}
	killed, newest := 0, 0
	for round := range testenv.Rounds(4, 60) {
		if _, ended := backup(time.Duration(chance.Int64N(int64(whole)))); !ended {
			killed++
		}
		out, err := attestd(t, "backup", "list", "--backup-to", place, "--json")
		must.OK(t, err)
		done, last := 0, 0
		for line := range strings.Lines(out) {
			var l struct {
				State    string
				Manifest struct{ Records int }
			}
			must.OK(t, json.Unmarshal([]byte(line), &l))
			if l.State == "done" {
				done++
				last = l.Manifest.Records
			}
		}
		if done == 0 || last < newest || done > keep+1 {
			t.Fatalf("round %d: %d backups are done, and the newest has %d records after %d", round, done, last, newest)
		}
		newest = last
		if _, err := attestd(t, "backup", "verify", "--all", "--backup-to", place); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	if _, ended := backup(patience); !ended {
		t.Error("the last backup failed")
	}
	for _, folder := range []string{place, dir} {
		entries, err := os.ReadDir(folder)
		must.OK(t, err)
		for _, e := range entries {
			// An empty temporary file stays for a day: its process may be about to lock it.
			info, err := e.Info()
			must.OK(t, err)
			if (strings.HasSuffix(e.Name(), ".partial") || strings.Contains(e.Name(), ".tmp-")) && info.Size() > 0 {
				t.Errorf("left: %s, %d bytes", e.Name(), info.Size())
			}
		}
	}
	t.Logf("%d killed", killed)
	must.OK(t, s.interrupt())
}
