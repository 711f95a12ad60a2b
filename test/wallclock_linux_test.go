package test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attestd/internal/harness"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// builtWithWall is attestd with a wall clock that a harness.Wall sets. It is compiled with another
// package time, which takes minutes where nothing is cached.
var builtWithWall = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(scratch, "wall")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "attestd")
	return path, harness.BuildWithWall(context.Background(), path, dir)
})

// setClock is a server whose wall clock leaps, and all else of whose clock is that of the machine.
type setClock struct {
	*service
	*harness.Wall
}

func serveSetClock(t *testing.T, db string, ahead time.Duration, flags ...string) setClock {
	t.Helper()
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	path, err := builtWithWall()
	must.OK(t, err)
	wall, err := harness.NewWall(filepath.Join(t.TempDir(), "wall"))
	must.OK(t, err)
	t.Cleanup(func() { _ = wall.Close() })
	must.OK(t, wall.SetAhead(ahead))
	cmd := exec.Command(path, append([]string{"serve", "--listen", "127.0.0.1:0", "--db", db, "--rate-limits", "off"}, flags...)...)
	cmd.Env = append(os.Environ(), wall.Env())
	s, err := launch(cmd)
	must.OK(t, err)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // mostly it has ended
		_ = s.wait()
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", tail(s.log.String(), 2000))
		}
	})
	return setClock{s, wall}
}

// reasons are those of /readyz.
func (s setClock) reasons(t *testing.T) []string {
	t.Helper()
	var ready struct{ Reasons []string }
	must.OK(t, json.Unmarshal(s.client(t, "").call(t, 200, "GET", "/readyz", "", nil), &ready))
	return ready.Reasons
}

// expect waits until the server's log has a text.
func (s setClock) expect(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(s.log.String(), text); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log does not say %q", text)
		}
	}
}

// actor appends under idempotency keys.
type actor struct {
	*client
	seen map[string]recorded // by key
}

type recorded struct {
	Index     int64
	Timestamp string
	Hash      string
}

func actorOf(t *testing.T, s setClock, company string) *actor {
	t.Helper()
	var made struct{ APIKey string }
	s.client(t, "").call(t, 201, "POST", "/v1/companies", fmt.Sprintf(`{"companyId":%q}`, company), &made)
	return &actor{s.client(t, made.APIKey), map[string]recorded{}}
}

// send sends the actions of all keys, and those of new ones. What was recorded must not be recorded
// again.
func (a *actor) send(t *testing.T, keys ...string) {
	t.Helper()
	for key := range a.seen {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		var answer struct{ Records []recorded }
		a.call(t, 201, "POST", "/v1/attest/batch",
			fmt.Sprintf(`{"records":[{"agentId":"bot","actionType":"paid","payload":%q,"idempotencyKey":%q}]}`, key, key), &answer)
		r := answer.Records[0]
		if was, again := a.seen[key]; again && was != r {
			t.Errorf("the retry of %s is record %d, and the first one was %d", key, r.Index, was.Index)
		}
		a.seen[key] = r
	}
}

// A running server notices that its wall clock leaps, in both directions: by its log, metrics and
// CLOCK_LEAP. No retry becomes a second record, whichever other servers append; times of a log
// never go back; no token that is valid is refused; and no payload is pruned by such a clock. Ten
// years ahead nothing is written.
func TestClockOfARunningServerIsSet(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	const day = 24 * time.Hour
	db := storetest.New(t)
	s := serveSetClock(t, db, 0)
	acme, zoo := actorOf(t, s, "acme"), actorOf(t, s, "zoo")
	var keys []string
	for i := range 40 {
		keys = append(keys, fmt.Sprint("k", i))
	}
	acme.send(t, keys...)
	zoo.send(t, "first")
	if is := s.reasons(t); len(is) > 0 {
		t.Errorf("before: %q", is)
	}

	must.OK(t, s.SetAhead(400*day))
	zoo.send(t, "after the leap") // another tenant's append must not move acme's keys
	acme.send(t, "new after the leap")
	if is := s.reasons(t); !slices.Equal(is, []string{"CLOCK_LEAP"}) {
		t.Errorf("after a leap: %q", is)
	}
	s.expect(t, `leap=9600h0m0s`)
	out := filepath.Join(t.TempDir(), "acme.ndjson")
	exits(t, 5, "leapt", "archive", "--company", "acme", "--before", time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		"--out", out, "--prune", "--db", db)
	must.OK(t, s.SetAhead(13*365*day)) // more than ten years ahead of the newest record
	if answer := zoo.call(t, 503, "POST", "/v1/attest", `{"agentId":"bot","actionType":"paid","payload":1}`, nil); !strings.Contains(string(answer), `"CLOCK"`) {
		t.Errorf("thirteen years ahead: %s", answer)
	}

	must.OK(t, s.SetAhead(0))
	acme.send(t, "when it is right again")
	if is := s.reasons(t); len(is) > 0 {
		t.Errorf("when it is right again: %q", is)
	}
	s.expect(t, `leap=-`)
	var verdict verdictOfChain
	if acme.call(t, 200, "GET", "/v1/verify", "", &verdict); !verdict.Valid || verdict.Pruned != 0 {
		t.Errorf("after a prune that was refused: %+v", verdict)
	}
	var token struct {
		Access string `json:"access_token"`
	}
	var made struct{ ClientID, ClientSecret string }
	zoo.call(t, 201, "POST", "/v1/oauth/clients", "", &made)
	zoo.call(t, 200, "POST", "/v1/oauth/token", fmt.Sprintf(`{"grant_type":"client_credentials","client_id":%q,"client_secret":%q}`,
		made.ClientID, made.ClientSecret), &token)
	must.OK(t, s.SetAhead(-2*day))
	acme.send(t, "two days back")
	s.client(t, token.Access).call(t, 200, "GET", "/v1/company", "", nil)
	must.OK(t, s.SetAhead(0))
	acme.send(t, "and forth")
	zoo.send(t)
	s.client(t, token.Access).call(t, 200, "GET", "/v1/company", "", nil)

	var all struct{ Records []recorded }
	acme.call(t, 200, "GET", "/v1/chain", "", &all)
	if len(all.Records) != len(acme.seen) {
		t.Errorf("%d records, and %d keys", len(all.Records), len(acme.seen))
	}
	if !slices.IsSortedFunc(all.Records, func(a, b recorded) int { return strings.Compare(a.Timestamp, b.Timestamp) }) {
		t.Error("times of the log go back")
	}
	must.OK(t, s.interrupt())
	exits(t, 0, "", "verify", "--db", db)
}

// A server whose clock is set while it runs says that it is not PostgreSQL's, and says when it is
// again.
func TestClockIsSetWithPostgres(t *testing.T) {
	testenv.Needs(t, testenv.PostgreSQL, testenv.Slow)
	t.Parallel()
	s := serveSetClock(t, storetest.Shared(t), 0)
	actor := actorOf(t, s, "acme")
	actor.send(t, "k")
	must.OK(t, s.SetAhead(time.Hour))
	s.expect(t, "the clock is not that of the database")
	actor.send(t)
	if is := s.reasons(t); !slices.Equal(is, []string{"CLOCK_APART", "CLOCK_LEAP"}) {
		t.Errorf("an hour ahead: %q", is)
	}
	must.OK(t, s.SetAhead(0))
	s.expect(t, "the clock is that of the database again")
	actor.send(t)
	if is := s.reasons(t); len(is) > 0 {
		t.Errorf("when it is right again: %q", is)
	}
}
