package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// older serves a copy of a database with 300 actions of acme that are older than a day. The plain
// names of its payloads are in the file.
func older(t *testing.T) (db string, s *service, c *client) {
	t.Helper()
	text, err := os.ReadFile("../store/testdata/schema-10.db")
	must.OK(t, err)
	about, err := os.ReadFile("../store/testdata/schema-10.json")
	must.OK(t, err)
	var companies map[string]struct{ Keys []string }
	must.OK(t, json.Unmarshal(about, &companies))
	db = filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(db, text, 0o600))
	// the years since the last record are no leap of the clock
	s = serve(t, db, "--rate-limits", "off", "--accept-clock")
	return db, s, s.client(t, companies["acme"].Keys[0])
}

func publishedKey(t *testing.T, c *client) string {
	t.Helper()
	var published struct{ Fingerprint string }
	c.call(t, 200, "GET", "/v1/ca/public-key?companyId=acme", "", &published)
	return published.Fingerprint
}

type verdictOfChain struct {
	Valid      bool
	Pruned     int64
	MerkleRoot string
}

// Payloads of an archived company go from the database, and every proof of their records stays. The
// archive has them, and a later archive continues it.
func TestPrune(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	db, s, c := older(t)
	var before, after verdictOfChain
	c.call(t, 200, "GET", "/v1/verify", "", &before)
	type proven struct {
		Record struct {
			Payload                    any
			Pruned                     bool
			Hash, Timestamp, Signature string
		}
		Proof []struct{ Sibling, Position string }
		Root  string
	}
	var was, now proven
	c.call(t, 200, "GET", "/v1/proof/7", "", &was)
	first := filepath.Join(t.TempDir(), "first.ndjson")
	made := exits(t, 0, "pruned: the payloads of the first 300 records", "archive", "--company", "acme", "--before", "1d", "--out", first, "--prune", "--db", db)
	_, sum, _ := strings.Cut(made.stdout, "SHA-256 ")
	sum = sum[:64]

	c.call(t, 200, "GET", "/v1/verify", "", &after)
	if !after.Valid || after.Pruned != 300 || after.MerkleRoot != before.MerkleRoot {
		t.Errorf("%+v, and before the payloads went %+v", after, before)
	}
	c.call(t, 200, "GET", "/v1/proof/7", "", &now)
	if now.Record.Payload != nil || !now.Record.Pruned {
		t.Errorf("%+v", now)
	}
	if now.Record.Payload, now.Record.Pruned = was.Record.Payload, false; !reflect.DeepEqual(now, was) {
		t.Errorf("%+v, and before the payloads went %+v", now, was)
	}
	if answer := c.call(t, 410, "GET", "/v1/evidence/7", "", nil); !bytes.Contains(answer, []byte("PAYLOAD_PRUNED")) || !bytes.Contains(answer, []byte(sum)) {
		t.Errorf("evidence without a payload: %s", answer)
	}
	exits(t, 0, "holds", "check", first, "--key", publishedKey(t, c))

	// Nothing is left to prune, and nothing younger than a day is pruned.
	exits(t, 0, "first 300 records", "archive", "--company", "acme", "--prune", "--db", db)
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"later","payload":1}`, nil)
	second := filepath.Join(t.TempDir(), "second.ndjson")
	exits(t, 5, "day", "archive", "--company", "acme", "--before", "0s", "--out", second, "--prune", "--db", db)
	exits(t, 0, sum, "check", second, "--key", publishedKey(t, c))
	if text, err := os.ReadFile(second); err != nil || bytes.Contains(text, []byte(`"pruned":true`)) || !bytes.Contains(text, []byte(`"later"`)) {
		t.Errorf("%v: the second archive has no or other records", err)
	}
	exits(t, 0, "", "verify", "--db", db)
	must.OK(t, s.interrupt())
	exits(t, 0, "300", "verify", "--company", "acme", "--db", db)

	// It stays so in a backup, and a payload that was not pruned is missed.
	copied := filepath.Join(t.TempDir(), "copy.db")
	exits(t, 0, "", "backup", "--db", db, copied)
	exits(t, 0, "300", "verify", "--company", "acme", "--db", copied)
	storetest.Stranger(t, copied, `DROP TRIGGER record_no_update`, `UPDATE record SET payload = '' WHERE id = (1 << 40) + 300`).Close()
	changed := command(t, "verify", "--db", copied)
	if changed.status != 4 || !strings.Contains(changed.all, "payload is missing") {
		t.Errorf("%+v", changed)
	}
}

// With --force no archive is replaced that alone has payloads or records: one whose payloads were
// pruned, one of another company, one that does not hold, and one with records that the database
// has lost. Another archive of the same records is.
func TestForceKeepsTheOnlyCopy(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	db, s, c := older(t)
	dir := t.TempDir()
	file, twice := filepath.Join(dir, "acme.ndjson"), filepath.Join(dir, "twice.ndjson")
	archive := func(status int, message, company, out string, more ...string) {
		t.Helper()
		before, _ := os.ReadFile(out)
		exits(t, status, message, append([]string{"archive", "--company", company, "--before", "0s", "--out", out, "--force", "--db", db}, more...)...)
		if after, err := os.ReadFile(out); status != 0 && (err != nil || !bytes.Equal(before, after)) {
			t.Errorf("%s: %v, or it was replaced", out, err)
		}
	}
	archive(0, "archived", "acme", twice)
	archive(0, "archived", "acme", twice)
	exits(t, 0, "pruned: the payloads of the first 300", "archive", "--company", "acme", "--before", "1d", "--out", file, "--prune", "--db", db)
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"later","payload":1}`, nil)

	const only = "has the payloads of the actions from 0 to before 300"
	archive(5, only, "acme", file)
	archive(5, only, "acme", file, "--prune")
	archive(5, only, "acme", twice) // of them, but it is not the one in the control record

	s.client(t, "").call(t, 201, "POST", "/v1/companies", `{"companyId":"globex"}`, nil)
	archive(5, "no archive of globex that holds", "globex", file)
	good, err := os.ReadFile(file)
	must.OK(t, err)
	damaged := filepath.Join(dir, "damaged.ndjson")
	must.OK(t, os.WriteFile(damaged, good[:len(good)/2], 0o600))
	archive(5, "that holds, so nobody knows", "acme", damaged)

	next := filepath.Join(dir, "next.ndjson")
	archive(0, "archived 1 record of actions", "acme", next)
	archive(0, "archived 1 record of actions", "acme", next)
	older := filepath.Join(dir, "older.db")
	exits(t, 0, "", "backup", "--db", db, older)
	c.call(t, 201, "POST", "/v1/attest", `{"agentId":"bot","actionType":"lost","payload":1}`, nil)
	archive(0, "archived 2 records of actions", "acme", next)
	must.OK(t, s.interrupt())
	db = older
	archive(5, "which the database lacks", "acme", next)
}

// The server reads an archive before it signs that it has the payloads: who reaches the socket with
// a SHA-256 that was made up, or with another file than an archive of these very records, prunes
// nothing.
func TestServerReadsTheArchiveBeforeItPrunes(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	db, s, c := older(t)
	file := filepath.Join(t.TempDir(), "acme.ndjson")
	exits(t, 0, "SHA-256", "archive", "--company", "acme", "--before", "1d", "--out", file, "--db", db)
	good, err := os.ReadFile(file)
	must.OK(t, err)
	socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", db+".sock")
	}}}
	post := func(path, body string) (int, string) {
		t.Helper()
		answer, err := socket.Post("http://local"+path, "", strings.NewReader(body))
		must.OK(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		must.OK(t, err)
		return answer.StatusCode, string(text)
	}
	lines := strings.SplitAfter(string(good), "\n")
	swapped := slices.Clone(lines)
	last := len(lines) - 3 // the last record of actions
	swapped[last], swapped[last-1] = swapped[last-1], swapped[last]
	root := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, test := range map[string]struct{ path, body, message string }{
		"a hash that was made up": {"/prune", `{"companyId":"acme","records":300,"root":"` + root + `","archive":"` + strings.Repeat("ab", 32) + `"}`, "records"},
		"nothing":                 {"/prune/acme", "", "does not hold"},
		"no archive":              {"/prune/acme", "{}\n", "does not hold"},
		"a payload is another":    {"/prune/acme", strings.Replace(string(good), `"actionType":"`, `"actionType":"x`, 1), "does not hold"},
		"a record is missing":     {"/prune/acme", strings.Join(slices.Delete(slices.Clone(lines), last, last+1), ""), "does not hold"},
		"records changed places":  {"/prune/acme", strings.Join(swapped, ""), "does not hold"},
		"it was cut off":          {"/prune/acme", string(good[:len(good)-1]), "does not hold"},
		"of another company":      {"/prune/zoo", string(good), "of the company"},
	} {
		if test.path == "/prune/acme" && test.body == string(good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if code, text := post(test.path, test.body); code < 400 || !strings.Contains(text, test.message) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	var verdict verdictOfChain
	c.call(t, 200, "GET", "/v1/verify", "", &verdict)
	control := c.call(t, 200, "GET", "/v1/chain?log=control", "", nil)
	if verdict.Pruned != 0 || bytes.Contains(control, []byte("payloads.pruned")) {
		t.Errorf("%+v", verdict)
	}

	if code, text := post("/prune/acme", string(good)); code != 200 {
		t.Fatalf("the archive itself: %d %s", code, text)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(good))
	if control := c.call(t, 200, "GET", "/v1/chain?log=control", "", nil); !bytes.Contains(control, []byte(`"archive":"`+sum+`"`)) {
		t.Error("the control record does not name the archive")
	}
	exits(t, 0, sum, "archive", "--company", "acme", "--prune", "--db", db)
	must.OK(t, s.interrupt())
}

// Without a company's archive nothing goes, and what is misspelt or incomplete is refused.
func TestPruneRefuses(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	db, s, c := older(t)
	out := filepath.Join(t.TempDir(), "a.ndjson")
	exits(t, 5, "no payload of acme was pruned", "archive", "--company", "acme", "--prune", "--db", db)
	exits(t, 2, "required", "archive", "--company", "acme", "--prune", "--out", out, "--db", db)
	exits(t, 3, "nobody", "archive", "--company", "nobody", "--prune", "--db", db)
	exits(t, 5, "@installation", "archive", "--company", "@installation", "--prune", "--db", db)
	exits(t, 2, "--prune", "archive", "--company", "acme", "--prun", "--db", db)
	var verdict verdictOfChain
	c.call(t, 200, "GET", "/v1/verify", "", &verdict)
	if verdict.Pruned != 0 {
		t.Errorf("%+v", verdict)
	}
	must.OK(t, s.interrupt())
}

// A prune that is killed at any moment is finished by the next, and the log verifies between them.
func TestKilledPrune(t *testing.T) {
	testenv.Needs(t, testenv.Plain, testenv.NotRaced)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))
	for range testenv.Rounds(2, 20) {
		db, s, c := older(t)
		path, err := binary(t)
		must.OK(t, err)
		out := filepath.Join(t.TempDir(), "acme.ndjson")
		cmd := exec.Command(path, "archive", "--company", "acme", "--before", "1d", "--out", out, "--prune", "--db", db)
		must.OK(t, cmd.Start())
		ending := s.cmd.Process
		if chance.IntN(2) == 0 {
			ending = cmd.Process
		}
		killer := time.AfterFunc(time.Duration(chance.Int64N(int64(300*time.Millisecond))), func() { _ = ending.Kill() })
		_ = cmd.Wait()
		killer.Stop()
		_ = s.cmd.Process.Kill()
		_ = s.wait()
		if killed := command(t, "verify", "--company", "acme", "--db", db); killed.status != 0 {
			t.Fatalf("after the kill: %+v", killed)
		}
		s = serve(t, db, "--rate-limits", "off")
		c = c.at(s)
		if finished := command(t, "archive", "--company", "acme", "--prune", "--db", db); finished.status == 5 {
			exits(t, 0, "first 300 records", "archive", "--company", "acme", "--before", "1d", "--out", out, "--force", "--prune", "--db", db)
		} else if finished.status != 0 {
			t.Fatalf("%+v", finished)
		}
		var verdict verdictOfChain
		c.call(t, 200, "GET", "/v1/verify", "", &verdict)
		if !verdict.Valid || verdict.Pruned != 300 {
			t.Errorf("%+v", verdict)
		}
		exits(t, 0, "holds", "check", out, "--key", publishedKey(t, c))
		must.OK(t, s.interrupt())
	}
}
