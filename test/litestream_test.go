package test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// Litestream replicates the database of a server while agents write, through its own checkpoints.
// When both are killed, every record that had been replicated is in the restored database, which
// verifies and goes on. Litestream's settings are those of docs/operate/backup.md.
func TestLitestreamRestoresReplicatedRecords(t *testing.T) {
	testenv.Needs(t, testenv.Hours, testenv.NotRaced)
	storetest.AboutFile(t)
	t.Parallel()
	litestream := testenv.Tool(t, "litestream")
	dir := t.TempDir()
	db, replica := filepath.Join(dir, "attestd.db"), filepath.Join(dir, "replica")
	config := filepath.Join(dir, "litestream.yml")
	must.OK(t, os.WriteFile(config, fmt.Appendf(nil, "dbs:\n  - path: %s\n    checkpoint-interval: 1s\n    min-checkpoint-page-count: 100\n    replica:\n      type: file\n      path: %s\n      sync-interval: 100ms\n", db, replica), 0o600))
	replicate := func() *exec.Cmd {
		cmd := exec.Command(litestream, "replicate", "-config", config)
		must.OK(t, cmd.Start())
		return cmd
	}
	var mu sync.Mutex
	acknowledged := map[int64]string{} // hashes, by index
	var c *client
	for round := range 3 {
		s := serve(t, db, "--rate-limits", "off")
		if c == nil {
			c = s.register(t, "acme")
		} else {
			c = c.at(s)
		}
		ls := replicate()
		attest := func() bool {
			var r struct {
				Index int64
				Hash  string
			}
			status, answer, err := c.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`)
			if err != nil || status != 201 || json.Unmarshal(answer, &r) != nil {
				return false
			}
			mu.Lock()
			acknowledged[r.Index] = r.Hash
			mu.Unlock()
			return true
		}
		for range 2000 {
			if !attest() {
				t.Fatal("the server does not attest")
			}
		}
		replicated := len(acknowledged)
		restored := ""
		for deadline := time.Now().Add(2 * time.Minute); ; {
			restored = filepath.Join(t.TempDir(), "restored.db")
			out, err := exec.Command(litestream, "restore", "-o", restored, "file://"+replica).CombinedOutput()
			if err == nil && len(hashes(t, restored)) >= replicated {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("not replicated: %v\n%s", err, out)
			}
		}
		writing := make(chan struct{})
		go func() {
			defer close(writing)
			for attest() {
			}
		}()
		for more := 0; more < 300; { // under way
			mu.Lock()
			more = len(acknowledged) - replicated
			mu.Unlock()
		}
		must.OK(t, ls.Process.Kill())
		_ = ls.Wait()
		must.OK(t, s.kill())
		<-writing
		restored = filepath.Join(t.TempDir(), "restored.db")
		out, err := exec.Command(litestream, "restore", "-o", restored, "file://"+replica).CombinedOutput()
		if err != nil {
			t.Fatalf("restore: %v\n%s", err, out)
		}
		must.OK(t, os.Chmod(restored, 0o600))
		verifyAcme(t, restored)
		found := hashes(t, restored)
		if len(found) < replicated {
			t.Errorf("round %d: %d records were replicated, and %d are there", round, replicated, len(found))
		}
		for i, hash := range found {
			if want := acknowledged[int64(i)]; want != "" && hash != want {
				t.Errorf("round %d: record %d is another one", round, i)
			}
		}
		t.Logf("round %d: %d replicated, %d acknowledged, %d restored", round, replicated, len(acknowledged), len(found))
		// the restored file takes the place of the database, as after a lost disk
		for _, left := range []string{db, db + "-wal", db + "-shm", db + ".heads"} {
			must.OK(t, os.RemoveAll(left))
		}
		must.OK(t, os.RemoveAll(replica))
		must.OK(t, os.RemoveAll(filepath.Join(dir, ".attestd.db-litestream")))
		_, err = attestd(t, "restore", restored, "--db", db)
		must.OK(t, err)
		for i := range acknowledged {
			if i >= int64(len(found)) {
				delete(acknowledged, i)
			}
		}
		for i, hash := range found {
			acknowledged[int64(i)] = hash
		}
	}
}

// hashes returns those of acme's records, by index.
func hashes(t *testing.T, db string) (list []string) {
	t.Helper()
	s := storetest.Stranger(t, db)
	defer s.Close()
	rows, err := s.Query("SELECT hash FROM record WHERE id >> 40 = 1 ORDER BY id")
	must.OK(t, err)
	defer rows.Close()
	for rows.Next() {
		var hash []byte
		must.OK(t, rows.Scan(&hash))
		list = append(list, hex.EncodeToString(hash))
	}
	must.OK(t, rows.Err())
	return list
}
