package test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// On a full disk every write is answered 503 with that reason, every read works, and no
// acknowledged record is lost, even if the server is stopped or killed meanwhile. When the disk has
// space again the server goes on.
func TestFullDisk(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	disk := smallDisk(t)
	db := filepath.Join(disk, "attestd.db")
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	jti := issue(t, c)
	key := newKey(t, c)

	var known []string
	for range 3 {
		known = appendUntil(t, c, known, 201, 5)
		fillUp(t, disk)
		known = appendUntil(t, c, known, 503, 1)
		refusesWrites(t, c, jti, key)
		hasAll(t, c, known)
		makeRoom(t, disk)
	}
	known = appendUntil(t, c, known, 201, 5)

	// Killed on a full disk, and started there: it has its journal, and needs no room to read.
	fillUp(t, disk)
	known = appendUntil(t, c, known, 503, 1)
	must.OK(t, s.kill())
	s = serve(t, db, "--rate-limits", "off")
	c = c.at(s)
	hasAll(t, c, known)
	fillUp(t, disk) // a restart may have made a little room
	known = appendUntil(t, c, known, 503, 1)
	refusesWrites(t, c, jti, key)
	makeRoom(t, disk)
	known = appendUntil(t, c, known, 201, 5)

	// Stopped on a full disk: its journal cannot be moved into the file any more. It may say so,
	// and the next start does it.
	fillUp(t, disk)
	known = appendUntil(t, c, known, 503, 1)
	if err := s.interrupt(); err != nil && !strings.HasSuffix(s.log.String(), "attestd: storage unavailable: database or disk is full (13)\n") {
		t.Errorf("%v: %s", err, s.log.String())
	}
	makeRoom(t, disk)
	s = serve(t, db, "--rate-limits", "off")
	c = c.at(s)
	hasAll(t, c, known)
	must.OK(t, s.interrupt())

	// A server that starts on a disk without a free byte, not even for a journal, reports that, and
	// goes on when there is space.
	fillUp(t, disk)
	if _, err := attestd(t, "serve", "--listen", "127.0.0.1:0", "--db", db); err == nil || !strings.Contains(err.Error(), "attestd.db: storage unavailable") {
		t.Errorf("a start without any room: %v", err)
	}
	makeRoom(t, disk)
	s = serve(t, db, "--rate-limits", "off")
	c = c.at(s)
	known = appendUntil(t, c, known, 201, 5)
	hasAll(t, c, known)
	c.call(t, 200, "POST", "/v1/passports/"+jti+"/revoke", "", nil)
	c.call(t, 200, "DELETE", "/v1/keys/"+key, "", nil)
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// smallDisk is a file system of 4 MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	mountSmallDisk(t, dir)
	return dir
}

// mountSmallDisk mounts one on a folder.
func mountSmallDisk(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		testenv.Needs(t, testenv.Root)
		testenv.Missing(t, fmt.Sprintf("a small tmpfs cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

// fillUp takes every byte of the disk.
func fillUp(t *testing.T, disk string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(disk, "ballast"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.OK(t, err)
	defer f.Close()
	if _, err := io.Copy(f, endless{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// makeRoom frees what fillUp took. A file that is only removed keeps its room while a process has
// it open, and what another test forks has all files of this process open until it becomes a
// program.
func makeRoom(t *testing.T, disk string) {
	t.Helper()
	ballast := filepath.Join(disk, "ballast")
	must.OK(t, os.Truncate(ballast, 0))
	must.OK(t, os.Remove(ballast))
}

// appendUntil appends records of 10 kB until want has been answered n times, and returns what is
// known with what was acknowledged.
func appendUntil(t *testing.T, c *client, known []string, want, n int) []string {
	t.Helper()
	for range 500 {
		body := fmt.Sprintf(`{"agentId":"bot","actionType":"fill","payload":{"n":%d,"pad":%q}}`, len(known), strings.Repeat("x", 10_000))
		code, answer, err := c.send("POST", "/v1/attest", body)
		must.OK(t, err)
		switch code {
		case 201:
			known = append(known, strings.TrimSuffix(string(answer), "\n"))
		case 503:
			if !strings.HasPrefix(string(answer), `{"error":"Service Unavailable`) || !strings.Contains(string(answer), `"code":"NOT_DONE"`) {
				t.Errorf("503 with %s", answer)
			}
		default:
			t.Fatalf("attest answers %d: %s", code, answer)
		}
		if code == want {
			n--
		}
		if n == 0 {
			return known
		}
	}
	t.Fatalf("no %d in 500 calls", want)
	return nil
}

// refusesWrites sends writes of every kind, each larger than the rest of a page.
func refusesWrites(t *testing.T, c *client, jti, key string) {
	t.Helper()
	long := strings.Repeat("x", 16_000)
	c.call(t, 503, "POST", "/v1/attest", `{"agentId":"bot","actionType":"fill","payload":"`+long+`"}`, nil)
	c.call(t, 503, "POST", "/v1/agents/register", `{"agentId":"bot","metadata":{"x":"`+long+`"}}`, nil)
	c.call(t, 503, "POST", "/v1/companies", `{"companyId":"other","metadata":{"x":"`+long+`"}}`, nil)
	c.call(t, 503, "POST", "/v1/keys", "", nil)
	c.call(t, 503, "DELETE", "/v1/keys/"+key, "", nil)
	c.call(t, 503, "POST", "/v1/agents/bot/passport", "", nil)
	c.call(t, 503, "POST", "/v1/passports/"+jti+"/revoke", "", nil)

	c.call(t, 200, "GET", "/v1/health", "", nil)
	c.call(t, 404, "GET", "/v1/ca/public-key?companyId=other", "", nil)
	var status struct{ Status string }
	c.call(t, 200, "GET", "/v1/ocsp/"+jti, "", &status)
	if status.Status != "valid" {
		t.Errorf("a revocation that was refused left the status %s", status.Status)
	}
	(&client{http: c.http, url: c.url, key: key}).call(t, 200, "GET", "/v1/company", "", nil)
}

// hasAll reads the chain back: exactly what was acknowledged, and it verifies.
func hasAll(t *testing.T, c *client, known []string) {
	t.Helper()
	var chain struct{ Records []json.RawMessage }
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	if len(chain.Records) != len(known) {
		t.Fatalf("the chain has %d records, %d were acknowledged", len(chain.Records), len(known))
	}
	for i, record := range chain.Records {
		if string(record) != known[i] {
			t.Errorf("record %d was acknowledged as %.200s and is %.200s", i, known[i], record)
		}
	}
	var verdict struct{ Valid bool }
	c.call(t, 200, "GET", "/v1/verify", "", &verdict)
	if !verdict.Valid {
		t.Error("the chain does not verify")
	}
}

func issue(t *testing.T, c *client) (jti string) {
	t.Helper()
	var made struct{ Passport string }
	c.call(t, 201, "POST", "/v1/agents/bot/passport", "", &made)
	var read struct{ Claims struct{ JTI string } }
	c.call(t, 200, "POST", "/v1/passport/verify", `{"passport":"`+made.Passport+`"}`, &read)
	return read.Claims.JTI
}

func newKey(t *testing.T, c *client) string {
	t.Helper()
	var made struct{ Key string }
	c.call(t, 201, "POST", "/v1/keys", "", &made)
	return made.Key
}
