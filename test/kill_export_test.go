package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// exportedLines runs attestd check --lines, which must say that the lines hold and have so many
// records of actions from the first on.
func exportedLines(t *testing.T, key string, records int64, files ...string) {
	t.Helper()
	r := command(t, append([]string{"check", "--lines", "--json", "--key", key}, files...)...)
	var v struct {
		Logs []struct {
			Log                      string
			First, Next, CoveredFrom int64
		}
	}
	if r.status != 0 || json.Unmarshal([]byte(r.stdout), &v) != nil {
		t.Fatalf("exit status %d: %s", r.status, r.all)
	}
	for _, l := range v.Logs {
		if l.First != 0 || l.CoveredFrom != 0 || l.Log == "actions" && l.Next != records {
			t.Fatalf("%d records are wanted: %s", records, r.stdout)
		}
	}
}

// An exporter that is killed at any moment loses nothing and writes nothing wrong: the one inside
// the server, and one in its own process.
func TestKilledExporterLosesNothing(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	rounds := testenv.Rounds(2, 60)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	db, folder := storetest.New(t), t.TempDir()
	inside, second := filepath.Join(folder, "inside.ndjson"), filepath.Join(folder, "beside.ndjson")
	flags := []string{"--rate-limits", "off", "--export-to", "file", "--export-file", inside}
	s := serve(t, db, flags...)
	c := s.register(t, "acme")
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	path, err := binary(t)
	must.OK(t, err)
	exporter := func(more ...string) *exec.Cmd {
		cmd := exec.Command(path, append([]string{"export", "--to", "file", "--file", second, "--url", s.URL}, more...)...)
		cmd.Env = append(os.Environ(), "ATTESTD_KEY="+c.key)
		return cmd
	}
	records := int64(0)
	for range rounds {
		running := exporter("--follow")
		must.OK(t, running.Start())
		batch := `{"records":[`
		for i := range 50 {
			if i > 0 {
				batch += ","
			}
			batch += fmt.Sprintf(`{"agentId":"bot","actionType":"a.b","payload":{"n":%d}}`, i)
		}
		for range 1 + chance.IntN(20) {
			c.call(t, 201, "POST", "/v1/attest/batch", batch+"]}", nil)
			records += 50
			time.Sleep(time.Duration(chance.IntN(30)) * time.Millisecond)
		}
		must.OK(t, running.Process.Kill())
		_ = running.Wait()
		must.OK(t, s.kill())
		s = serve(t, db, flags...)
		c = c.at(s)
	}
	out, err := exporter().CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	exportedLines(t, published.Fingerprint, records, second)
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r := command(t, "check", "--lines", "--json", "--key", published.Fingerprint, inside)
		if r.status == 0 && json.Valid([]byte(r.stdout)) && nextOf(t, r.stdout) == records {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not exported: %s", r.all)
		}
	}
	// a program that rotates logs moves the file, and sends a signal
	must.OK(t, os.Rename(inside, inside+".1"))
	must.OK(t, s.cmd.Process.Signal(syscall.SIGHUP))
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"a.b","payload":{}}`, nil)
	records++
	must.OK(t, s.interrupt())
	exportedLines(t, published.Fingerprint, records, inside+".1", inside)
	t.Logf("%d records", records)
}

// nextOf returns how many records of actions a verdict is about.
func nextOf(t *testing.T, verdict string) int64 {
	t.Helper()
	var v struct {
		Logs []struct {
			Log  string
			Next int64
		}
	}
	must.OK(t, json.Unmarshal([]byte(verdict), &v))
	for _, l := range v.Logs {
		if l.Log == "actions" {
			return l.Next
		}
	}
	return 0
}
