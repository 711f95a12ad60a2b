package test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server that is killed at any moment has stored all that it has acknowledged: records, byte for
// byte, revocations, deletions of keys, and new signing keys. Every round kills the next server on
// the same file.
func TestKilledServerLosesNothing(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	rounds := testenv.Rounds(2, 20)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))

	db := storetest.New(t)
	s := serve(t, db, "--rate-limits", "off")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	known := ledger{records: map[int64]string{}, revoked: map[string]bool{}, deleted: map[string]bool{}, undeleted: map[string]bool{c.key: true}, signing: map[string]int64{}}
	for round := range rounds {
		known.fill(t, c, s, round, 1+chance.Int64N(moments(1200, 120)))
		verified := verifyAcme(t, db) // as the killed server left it
		s = serve(t, db, "--rate-limits", "off")
		c = c.at(s)
		known.check(t, c)
		if again := verifyAcme(t, db); again != verified {
			t.Fatalf("round %d: the file said %+v before the restart, and says %+v after it", round, verified, again)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d records, %d revocations, %d deleted keys", len(known.records), len(known.revoked), len(known.deleted))
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// moments is how many calls a round has at most. There are fewer on PostgreSQL, where load does not
// count.
func moments(onFile, onPostgres int64) int64 {
	if storetest.OnPostgres() {
		return onPostgres
	}
	return onFile
}

// ledger is what the server has acknowledged to the clients.
type ledger struct {
	mu        sync.Mutex
	records   map[int64]string // by index, as they were answered
	revoked   map[string]bool  // by jti; false where it was not requested
	deleted   map[string]bool  // keys
	undeleted map[string]bool  // keys without a request to delete
	signing   map[string]int64 // kid of each new signing key, and the first record that it signs
	newKeys   []string         // of the latest round, those of deleted
	newState  []string         // of the latest round, the jti of those of revoked
}

// fill has 16 clients append, and a few revoke passports and delete keys, all at once, and kills
// the server when so many calls have been begun or answered.
func (l *ledger) fill(t *testing.T, c *client, s *service, round int, moments int64) {
	t.Helper()
	l.newKeys, l.newState = nil, nil
	a := &attack{t: t, c: c, ledger: l, now: make(chan struct{})}
	a.moments.Store(moments)
	load := a.load()
	var clients sync.WaitGroup
	for who := range 16 {
		clients.Go(func() {
			for n := 0; load.attest(who, round, n); n++ {
			}
		})
	}
	for range 2 {
		clients.Go(func() {
			for n := 0; a.revoke(n); n++ {
			}
		})
		clients.Go(func() {
			for n := 0; a.deleteKey(n); n++ {
			}
		})
	}
	clients.Go(func() {
		for n := 0; n < 3 && a.rotateKey(n); n++ {
		}
	})
	select {
	case <-a.now:
	case <-time.After(patience):
		t.Error("the clients have come to a halt")
	}
	must.OK(t, s.kill())
	clients.Wait()
}

// attack is what goes on in a round until the server is gone.
type attack struct {
	*ledger
	t       *testing.T
	c       *client
	moments atomic.Int64  // until the end
	now     chan struct{} // closed when they are over
}

// load is a for those who append. On PostgreSQL their calls do not bring the end nearer: a
// revocation is answered there after it holds on every server, which takes as long as hundreds of
// records, and there are to be some in each round.
func (a *attack) load() *attack {
	if !storetest.OnPostgres() {
		return a
	}
	load := &attack{ledger: a.ledger, t: a.t, c: a.c, now: a.now}
	load.moments.Store(-1)
	return load
}

func (a *attack) pass() {
	if a.moments.Add(-1) == 0 {
		close(a.now)
	}
}

// do makes one call; it is not ok when the server was killed before its answer.
func (a *attack) do(status int, method, path, body string, dest any) (answer []byte, ok bool) {
	a.pass()
	code, answer, err := a.c.send(method, path, body)
	if err != nil {
		return nil, false
	}
	if code != status {
		a.t.Errorf("%s %s answers %d: %s", method, path, code, answer)
		return nil, false
	}
	if dest != nil {
		err = json.Unmarshal(answer, dest)
	}
	if err != nil {
		a.t.Error(err)
	}
	return answer, err == nil
}

// acknowledged records what the server has answered.
func (a *attack) acknowledged(record func(*ledger)) {
	a.mu.Lock()
	record(a.ledger)
	a.mu.Unlock()
	a.pass()
}

// attest appends one record and reports whether the server is still running; the next two functions
// do the same.
func (a *attack) attest(who, round, n int) bool {
	var record struct{ Index int64 }
	answer, ok := a.do(201, "POST", "/v1/attest", fmt.Sprintf(
		`{"agentId":"bot %d","actionType":"count","payload":{"round":%d, "n":%d.0, "pad":%q}}`, who, round, n, strings.Repeat("x", n*97%3000)), &record)
	if !ok {
		return false
	}
	a.acknowledged(func(l *ledger) {
		text := strings.TrimSuffix(string(answer), "\n")
		if other, used := l.records[record.Index]; used {
			a.t.Errorf("one index for two records: %s and %s", other, text)
		}
		l.records[record.Index] = text
	})
	return true
}

// revoke issues a passport and revokes it, but every third.
func (a *attack) revoke(n int) bool {
	var made struct{ Passport string }
	if _, ok := a.do(201, "POST", "/v1/agents/bot/passport", "", &made); !ok {
		return false
	}
	var read struct{ Claims struct{ JTI string } }
	if _, ok := a.do(200, "POST", "/v1/passport/verify", `{"passport":"`+made.Passport+`"}`, &read); !ok {
		return false
	}
	jti, revoked := read.Claims.JTI, n%3 < 2
	if revoked {
		if _, ok := a.do(200, "POST", "/v1/passports/"+jti+"/revoke", "", nil); !ok {
			return false
		}
	}
	a.acknowledged(func(l *ledger) { l.revoked[jti], l.newState = revoked, append(l.newState, jti) })
	return true
}

// deleteKey makes a key and deletes it, but every third.
func (a *attack) deleteKey(n int) bool {
	var made struct{ Key string }
	if _, ok := a.do(201, "POST", "/v1/keys", "", &made); !ok {
		return false
	}
	if n%3 == 2 {
		a.acknowledged(func(l *ledger) { l.undeleted[made.Key] = true })
		return true
	}
	if _, ok := a.do(200, "DELETE", "/v1/keys/"+made.Key, "", nil); !ok {
		return false
	}
	a.acknowledged(func(l *ledger) { l.deleted[made.Key], l.newKeys = true, append(l.newKeys, made.Key) })
	return true
}

// rotateKey gives the company another signing key.
func (a *attack) rotateKey(n int) bool {
	var made struct {
		KID   string
		Index int64
	}
	if _, ok := a.do(200, "POST", "/v1/companies/rotate-keys", "", &made); !ok {
		return false
	}
	a.acknowledged(func(l *ledger) { l.signing[made.KID] = made.Index })
	return true
}

// check finds all that the ledger knows in a service.
func (l *ledger) check(t *testing.T, c *client) {
	t.Helper()
	var chain struct{ Records []json.RawMessage }
	c.call(t, 200, "GET", "/v1/chain", "", &chain)
	for index, text := range l.records {
		if index >= int64(len(chain.Records)) {
			t.Fatalf("record %d was acknowledged; the chain has %d", index, len(chain.Records))
		}
		if found := string(chain.Records[index]); found != text {
			t.Fatalf("record %d was acknowledged as\n%s\nand is\n%s", index, text, found)
		}
	}

	var list struct{ Revoked []struct{ JTI string } }
	c.call(t, 200, "GET", "/v1/passports/revoked", "", &list)
	revoked := map[string]bool{}
	for _, r := range list.Revoked {
		revoked[r.JTI] = true
	}
	for jti, want := range l.revoked {
		if revoked[jti] != want {
			t.Errorf("passport %s: revoked %v, was told %v", jti, revoked[jti], want)
		}
	}
	for _, jti := range l.newState {
		var answer struct{ Status string }
		c.call(t, 200, "GET", "/v1/ocsp/"+jti, "", &answer)
		if want := map[bool]string{true: "revoked", false: "valid"}[l.revoked[jti]]; answer.Status != want {
			t.Errorf("passport %s has the status %s, want %s", jti, answer.Status, want)
		}
	}

	var keys struct{ Keys []struct{ Key string } }
	c.call(t, 200, "GET", "/v1/keys", "", &keys)
	missing := map[string]bool{}
	for key := range l.undeleted {
		missing[key] = true
	}
	for _, k := range keys.Keys {
		delete(missing, k.Key)
		if l.deleted[k.Key] {
			t.Error("a deleted key is there again")
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d keys of %d are lost", len(missing), len(l.undeleted))
	}
	from := map[string]int64{}
	for _, k := range signingKeys(t, c) {
		from[k.KID] = k.FromIndex
	}
	for kid, index := range l.signing {
		if found, ok := from[kid]; !ok || found != index {
			t.Errorf("key %s was to sign from %d on, and is there: %v, from %d", kid, index, ok, found)
		}
	}
	for _, key := range l.newKeys {
		(&client{http: c.http, url: c.url, key: key}).call(t, 401, "GET", "/v1/company", "", nil)
	}
}

// verdict is a line of `attestd verify --json`.
type verdict struct {
	CompanyID  string
	Valid      bool
	Records    int64
	MerkleRoot string
}

// verifyAcme verifies a file whose only company is acme, and returns the verdict on its actions.
func verifyAcme(t *testing.T, db string) (v verdict) {
	t.Helper()
	out, err := attestd(t, "verify", "--db", db, "--json")
	must.OK(t, err)
	must.OK(t, json.NewDecoder(strings.NewReader(out)).Decode(&v)) // the first line
	if v.CompanyID != "acme" || !v.Valid {
		t.Fatalf("the file says %+v", v)
	}
	return v
}
