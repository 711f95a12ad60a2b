package test

import (
	"fmt"
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

// fill appends n records of 20 kB.
func fill(t *testing.T, c *client, n int) {
	t.Helper()
	pad := strings.Repeat("x", 20_000)
	for range n / 50 {
		item := fmt.Sprintf(`{"agentId":"bot","actionType":"fill","payload":%q}`, pad)
		c.call(t, 201, "POST", "/v1/attest/batch", `{"records":[`+strings.Repeat(item+",", 49)+item+`]}`, nil)
	}
}

// An archive command that is killed at any moment leaves no file with its name, or an archive that
// verifies; the same command makes it afterwards, while a server appends.
func TestKilledArchiveLeavesNone(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	db, folder := storetest.New(t), t.TempDir()
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	fill(t, c, 200)
	path, err := binary(t)
	must.OK(t, err)
	out := filepath.Join(folder, "acme.ndjson")
	archive := func(after time.Duration) (took time.Duration, done bool) {
		cmd := exec.Command(path, "archive", "--company", "acme", "--before", "0s", "--out", out, "--db", db)
		began := time.Now()
		must.OK(t, cmd.Start())
		killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		done = cmd.Wait() == nil
		killer.Stop()
		return time.Since(began), done
	}
	whole, done := archive(patience)
	if !done {
		t.Fatal("the first archive failed")
	}
	holds := func() {
		t.Helper()
		exits(t, 0, "holds", "check", out, "--key", published.Fingerprint)
		must.OK(t, os.Remove(out))
	}
	holds()
	for range testenv.Rounds(4, 60) {
		_, done := archive(time.Duration(chance.Int64N(int64(whole))))
		if _, err := os.Stat(out); done || err == nil {
			holds()
		}
		c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"count","payload":1}`, nil)
	}
	if _, done := archive(patience); !done {
		t.Error("the last archive failed")
	}
	holds()
	must.OK(t, s.interrupt())
}
