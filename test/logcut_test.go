package test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"attestd/internal/must"
	"attestd/store/storetest"
)

// Emptying the write-ahead log under a running server (": > attestd.db-wal") loses nothing: from
// the next request on nothing is written, the server is not ready, its answers are correct, and the
// database is complete after a stop.
func TestEmptiedLog(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the log is not copied")
	}
	db := filepath.Join(t.TempDir(), "attestd.db")
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	known := appendUntil(t, c, nil, 201, 30)
	must.OK(t, os.Truncate(db+"-wal", 0))
	for range 3 {
		code, answer, err := c.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"late","payload":{}}`)
		must.OK(t, err)
		if code != 503 || !strings.Contains(string(answer), `"code":"FILE_CHANGED"`) {
			t.Fatalf("a write answers %d: %s", code, answer)
		}
		c.call(t, 503, "GET", "/readyz", "", nil)
	}
	hasAll(t, c, known)
	if err := s.interrupt(); err == nil || !strings.Contains(s.log.String(), "attestd.db-wal was cut short or overwritten") {
		t.Errorf("%v: %s", err, s.log.String())
	}
	s = serve(t, db, "--rate-limits", "off")
	hasAll(t, c.at(s), known)
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// Emptying the index of the write-ahead log, which SQLite has mapped into memory, may end the
// server, but no acknowledged record is in the index alone.
func TestEmptiedIndexOfTheLog(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the index cannot be cut short")
	}
	db := filepath.Join(t.TempDir(), "attestd.db")
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	known := appendUntil(t, c, nil, 201, 30)
	must.OK(t, os.Truncate(db+"-shm", 0))
	for range 5 {
		code, answer, err := c.send("POST", "/v1/attest", `{"agentId":"bot","actionType":"late","payload":{}}`)
		if err == nil && code == 201 {
			known = append(known, strings.TrimSuffix(string(answer), "\n"))
		}
	}
	_ = s.kill()
	s = serve(t, db, "--rate-limits", "off")
	hasAll(t, c.at(s), known)
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}
