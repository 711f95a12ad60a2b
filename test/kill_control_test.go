package test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sync"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// A server that is killed at any moment leaves each change of permissions with its control record,
// or neither: for every kind of change the state in the API follows from the control log alone, and
// every acknowledged change is present. Every round kills the next server.
func TestKilledServerCommitsChangeWithRecord(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.Plain)
	t.Parallel()
	rounds := testenv.Rounds(2, 50)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 0))

	db := storetest.New(t)
	streams := []string{"open", "authenticated", "off"}
	s := serve(t, db, "--rate-limits", "off", "--stream", "open", "--max-webhooks", "1000")
	c := s.register(t, "acme")
	c.call(t, 201, "POST", "/v1/agents/register", `{"agentId":"bot"}`, nil)
	actions := map[string]int{}
	for round := range rounds {
		w := &writers{attack: &attack{t: t, c: c, now: make(chan struct{}), ledger: &ledger{
			records: map[int64]string{}, revoked: map[string]bool{}, deleted: map[string]bool{}, undeleted: map[string]bool{}, signing: map[string]int64{},
		}}, round: round, changed: map[string]bool{}}
		w.moments.Store(1 + chance.Int64N(moments(500, 250)))
		w.write(s)
		verdicts(t, db) // as the killed server left it
		startAndKill(t, db, streams[chance.IntN(3)], time.Duration(chance.Int64N(int64(100*time.Millisecond))))
		stream := streams[chance.IntN(3)]
		s = serve(t, db, "--rate-limits", "off", "--stream", stream, "--max-webhooks", "1000")
		c = c.at(s)
		verified := verdicts(t, db)
		known := agrees(t, c, "acme", stream, verified["acme"])
		for what := range w.acknowledged() {
			if known[what] == 0 {
				t.Errorf("acknowledged, and of no record: %s", what)
			}
		}
		for n := range w.companies {
			if id := fmt.Sprintf("co-%d-%d", round, n); verified[id] != 0 {
				// the recovery is recorded, too
				agrees(t, recovered(t, s, id), id, stream, verified[id]+1)
			} else if s.client(t, "").call(t, 404, "GET", "/v1/ca/public-keys?companyId="+id, "", nil); w.changed["company.registered company:"+id] {
				t.Errorf("%s was acknowledged and is not there", id)
			}
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		maps.Copy(actions, known)
	}
	kinds := map[string]int{}
	for what := range actions {
		var kind, subject string
		_, _ = fmt.Sscan(what, &kind, &subject)
		kinds[kind]++
	}
	t.Log(kinds)
	if len(kinds) != 17 { // all that servers make
		t.Errorf("%d kinds of change: %v", len(kinds), kinds)
	}
	must.OK(t, s.interrupt())
	verifyAcme(t, db)
}

// startAndKill starts a server with a setting, and kills it while it starts or soon after.
func startAndKill(t *testing.T, db, stream string, after time.Duration) {
	t.Helper()
	path, err := binary(t)
	must.OK(t, err)
	cmd := exec.Command(path, "serve", "--listen", "127.0.0.1:0", "--db", db, "--stream", stream)
	must.OK(t, cmd.Start())
	killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	killer.Stop()
}

// writers make changes of each kind during a load of records, until the server is gone.
type writers struct {
	*attack
	round     int
	companies int             // that were asked for
	changed   map[string]bool // what was acknowledged, as "action subject"
}

func (w *writers) write(s *service) {
	w.t.Helper()
	var clients sync.WaitGroup
	loop := func(call func(n int) bool) {
		clients.Go(func() {
			for n := 0; call(n); n++ {
			}
		})
	}
	load := w.load()
	for who := range 4 {
		loop(func(n int) bool { return load.attest(who, w.round, n) })
	}
	for _, call := range []func(int) bool{w.revoke, w.deleteKey, w.client, w.agent, w.rotatePassport, w.company, w.webhook} {
		loop(call)
	}
	loop(func(n int) bool { return n < 2 && w.rotateKey(n) })
	select {
	case <-w.now:
	case <-time.After(patience):
		w.t.Error("the clients have come to a halt")
	}
	must.OK(w.t, s.kill())
	clients.Wait()
}

func (w *writers) record(what string, args ...any) {
	w.attack.acknowledged(func(*ledger) { w.changed[fmt.Sprintf(what, args...)] = true })
}

// client makes an OAuth client and deletes it, but every third.
func (w *writers) client(n int) bool {
	var made struct{ ClientID string }
	if _, ok := w.do(201, "POST", "/v1/oauth/clients", `{"role":"reader"}`, &made); !ok {
		return false
	}
	w.record("oauth-client.created oauth-client:%s", made.ClientID)
	if n%3 == 2 {
		return true
	}
	_, ok := w.do(200, "DELETE", "/v1/oauth/clients/"+made.ClientID, "", nil)
	if ok {
		w.record("oauth-client.deleted oauth-client:%s", made.ClientID)
	}
	return ok
}

// agent registers an agent, issues it a passport, disables it, and enables every second again.
func (w *writers) agent(n int) bool {
	id := fmt.Sprintf("bot-%d-%d", w.round, n)
	for _, step := range []struct {
		status               int
		path, body, recorded string
	}{
		{201, "/v1/agents/register", `{"agentId":"` + id + `"}`, "agent.registered"},
		{201, "/v1/agents/" + id + "/passport", "", ""},
		{200, "/v1/agents/" + id + "/disable", "", "agent.disabled"},
		{200, "/v1/agents/" + id + "/enable", "", "agent.enabled"},
	} {
		if step.recorded == "agent.enabled" && n%2 == 1 {
			break
		}
		if _, ok := w.do(step.status, "POST", step.path, step.body, nil); !ok {
			return false
		}
		if step.recorded != "" {
			w.record("%s agent:%s", step.recorded, id)
		}
	}
	return true
}

// webhook makes a webhook, for which there is never a message, and changes it in each way.
func (w *writers) webhook(int) bool {
	var made struct{ WebhookID string }
	if _, ok := w.do(201, "POST", "/v1/webhooks", `{"url":"https://hooks.example.invalid/","agents":["nobody"]}`, &made); !ok {
		return false
	}
	w.record("webhook.created webhook:%s", made.WebhookID)
	at := "/v1/webhooks/" + made.WebhookID
	for _, step := range []struct{ method, path, recorded string }{
		{"POST", at + "/disable", "disabled"}, {"POST", at + "/rotate-secret", "secret-rotated"}, {"POST", at + "/enable", "enabled"}, {"DELETE", at, "deleted"},
	} {
		if _, ok := w.do(200, step.method, step.path, "", nil); !ok {
			return false
		}
		w.record("webhook.%s webhook:%s", step.recorded, made.WebhookID)
	}
	return true
}

// rotatePassport issues a passport and exchanges it for another.
func (w *writers) rotatePassport(int) bool {
	var made, next struct{ Passport string }
	if _, ok := w.do(201, "POST", "/v1/agents/bot/passport", "", &made); !ok {
		return false
	}
	presenting := *w.c
	presenting.http = &http.Client{Transport: withPassport(made.Passport)}
	rotating := &attack{t: w.t, c: &presenting, now: make(chan struct{})}
	rotating.moments.Store(-1) // which w counts
	if _, ok := rotating.do(200, "POST", "/v1/agents/bot/passport/rotate", "", &next); !ok {
		return false
	}
	w.record("passport.revoked passport:%s", jtiOf(w.t, made.Passport))
	w.record("passport.issued passport:%s", jtiOf(w.t, next.Passport))
	return true
}

// withPassport sends a passport along.
type withPassport string

func (p withPassport) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Attestd-Passport", string(p))
	return http.DefaultTransport.RoundTrip(r)
}

// company registers a company, as anybody may, a few times in a round.
func (w *writers) company(n int) bool {
	id := fmt.Sprintf("co-%d-%d", w.round, n)
	w.companies = n + 1
	_, ok := w.do(201, "POST", "/v1/companies", `{"companyId":"`+id+`"}`, nil)
	if ok {
		w.record("company.registered company:%s", id)
	}
	return ok && n < 1
}

// acknowledged returns what acme's control log must contain: the acknowledged changes, and the keys
// and passports of the ledger.
func (w *writers) acknowledged() map[string]bool {
	known := map[string]bool{}
	for what := range w.changed {
		if company := "company.registered"; what[:len(company)] != company {
			known[what] = true
		}
	}
	for jti, revoked := range w.revoked {
		known["passport.issued passport:"+jti] = true
		if revoked {
			known["passport.revoked passport:"+jti] = true
		}
	}
	for key := range w.deleted {
		known["api-key.deleted api-key:"+fingerprintOf(key)] = true
	}
	for key := range w.undeleted {
		known["api-key.created api-key:"+fingerprintOf(key)] = true
	}
	for kid := range w.signing {
		known["signing-key.rotated signing-key:"+kid] = true
	}
	return known
}

func fingerprintOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return fmt.Sprintf("%x", sum[:8])
}
