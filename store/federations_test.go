package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

const aRule = `[{"agentId":"bot","match":{"sub":"x"},"register":false,"scope":"agent","ttl":3600}]`

func aFederation(name string) store.Federation {
	return store.Federation{Name: name, Issuer: "https://ci.example", Audience: name, JWKSURI: "https://ci.example/jwks", Rules: aRule}
}

// federated makes a company with an agent and a federation.
func federated(t *testing.T) (s *store.Store, path string, who store.Caller, f store.Federation) {
	t.Helper()
	s, path = fresh(t)
	c, _ := company(t, s, "acme")
	who = by(c, now)
	got(s.Agents.Register(ctx, who, "bot", nil, store.AgentBounds{Most: 10}))(t)
	return s, path, who, got(s.Federations.Create(ctx, who, aFederation("ci"), 3))(t)
}

// A federation is made once, listed, found by its issuer in its own company alone, and deleted, and
// each change is in the control log.
func TestFederations(t *testing.T) {
	t.Parallel()
	s, path, who, f := federated(t)
	zoo, _ := company(t, s, "zoo")
	for name, again := range map[string]store.Federation{"name": {Name: "ci", Issuer: "x", Audience: "y"}, "issuer and audience": {Name: "other", Issuer: f.Issuer, Audience: f.Audience}} {
		again.Rules = aRule
		if _, err := s.Federations.Create(ctx, who, again, 3); !errors.Is(err, store.ErrExists) {
			t.Errorf("the same %s: %v", name, err)
		}
	}
	second := aFederation("second")
	second.JWKS, second.JWKSURI = `{"keys":[]}`, ""
	got(s.Federations.Create(ctx, who, second, 2))(t)
	if _, err := s.Federations.Create(ctx, who, aFederation("third"), 2); !errors.Is(err, store.ErrTooMany) {
		t.Error(err)
	}
	if all := all(t, s.Federations.List(ctx, who)); len(all) != 2 || all[0].Name != "ci" || all[1].JWKS != `{"keys":[]}` {
		t.Errorf("%+v", all)
	}
	if have := got(s.Federations.Get(ctx, who, "ci"))(t); have.Rules != aRule || have.JWKSURI != f.JWKSURI || have.CreatedAt != f.CreatedAt {
		t.Errorf("%+v", have)
	}
	for range 2 { // read, and remembered
		if have := got(s.Federations.Trusting(ctx, who, f.Issuer))(t); len(have) != 2 || have[1].Audience != "second" {
			t.Errorf("%+v", have)
		}
	}
	for _, other := range []store.Caller{by(zoo, now)} {
		_, err := s.Federations.Trusting(ctx, other, f.Issuer)
		_, getErr := s.Federations.Get(ctx, other, "ci")
		if deleteErr := s.Federations.Delete(ctx, other, "ci"); !errors.Is(err, store.ErrNotFound) || !errors.Is(getErr, store.ErrNotFound) || !errors.Is(deleteErr, store.ErrNotFound) {
			t.Errorf("another company: %v, %v, %v", err, getErr, deleteErr)
		}
	}
	must.OK(t, s.Federations.Delete(ctx, who, "ci"))
	if have := got(s.Federations.Trusting(ctx, who, f.Issuer))(t); len(have) != 1 || have[0].Name != "second" {
		t.Errorf("after the deletion: %+v", have)
	}
	got(s.Federations.Create(ctx, who, aFederation("ci"), 3))(t) // its name is free again
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	records := strings.Join(controlRecords(t, s, who.Company), "\n")
	for _, want := range []string{`federation.created `, `"audience":"ci"`, `"issuer":"https://ci.example"`, `"jwksUri":"https://ci.example/jwks"`, `"jwks":{"keys":[]}`, `"rules":` + aRule, `federation.deleted `, `"subject":"federation:ci"`} {
		if !strings.Contains(records, want) {
			t.Errorf("%s is not in the control log:\n%s", want, records)
		}
	}
	must.OK(t, s.Close())
	s = open(t, path)
	who.Company = got(s.Companies.Get(ctx, "acme"))(t)
	if have := got(s.Federations.Trusting(ctx, who, f.Issuer))(t); len(have) != 2 {
		t.Errorf("after a restart: %+v", have)
	}
}

// Of the federations whose keys are fetched, each company's newest comes before the second of any,
// so that no company gets all the first places.
func TestFetchedFederations(t *testing.T) {
	t.Parallel()
	s, _, who, _ := federated(t)
	zoo, _ := company(t, s, "zoo")
	for n := range 3 {
		f := aFederation(fmt.Sprint("more", n))
		f.Issuer, f.JWKSURI = fmt.Sprint("https://more.example/", n), ""
		got(s.Federations.Create(ctx, who, f, 10))(t)
	}
	pinned := aFederation("pinned")
	pinned.Issuer, pinned.JWKS, pinned.JWKSURI = "https://pinned.example", `{"keys":[]}`, ""
	got(s.Federations.Create(ctx, who, pinned, 10))(t)
	got(s.Federations.Create(ctx, by(zoo, now), aFederation("ci"), 10))(t)
	acme := func(n int) store.Fetched {
		return store.Fetched{Company: who.Company.Chain, Issuer: fmt.Sprint("https://more.example/", n)}
	}
	of := func(c *store.Company) store.Fetched {
		return store.Fetched{Company: c.Chain, Issuer: aFederation("ci").Issuer, JWKSURI: aFederation("ci").JWKSURI}
	}
	want := []store.Fetched{acme(2), of(zoo), acme(1), acme(0), of(who.Company)}
	for most := range 7 {
		if have := got(s.Federations.Fetched(ctx, most))(t); !slices.Equal(have, want[:min(most, 5)]) {
			t.Errorf("at most %d: %+v, want %+v", most, have, want[:min(most, 5)])
		}
	}
}

// A workload's token is its agent's, until it ends, its federation is deleted or the agent is
// disabled.
func TestFederatedToken(t *testing.T) {
	t.Parallel()
	s, _, who, f := federated(t)
	issue := func(jkt string, ends time.Duration) [32]byte {
		t.Helper()
		return keys.HashSecret(got(s.Federations.IssueFederated(ctx, who, store.Federated{Federation: f, Subject: "x", AgentID: "bot", JKT: jkt, Ends: now.Add(ends)}, 100))(t))
	}
	token, bound := issue("", time.Minute), issue("thumb", time.Minute)
	have := got(s.Credentials.Authenticate(ctx, token, now))(t)
	if have.Company.ID != "acme" || have.Role != store.ActsAsAgent || have.Agent != "bot" || have.Federation != "ci" || have.Credential != "federation:ci" || !have.Expires.Equal(now.Add(time.Minute)) {
		t.Errorf("%+v", have)
	}
	proven := func(thumbprint string) error {
		if thumbprint != "thumb" {
			t.Errorf("a proof of the key %s is asked for", thumbprint)
		}
		return nil
	}
	if have := got(s.Credentials.AuthenticateBound(ctx, bound, now, proven))(t); have.Agent != "bot" || have.JKT != "thumb" {
		t.Errorf("%+v", have)
	}
	// a caller that is bound to a key and proves nothing is none, nor is one that proves too much
	unproven := errors.New("unproven")
	if have, err := s.Credentials.Authenticate(ctx, bound, now); !errors.Is(err, store.ErrBound) || have.Company != nil {
		t.Errorf("without a proof: %+v, %v", have, err)
	}
	if have, err := s.Credentials.AuthenticateBound(ctx, bound, now, func(string) error { return unproven }); !errors.Is(err, unproven) || have.Company != nil {
		t.Errorf("with a wrong proof: %+v, %v", have, err)
	}
	if have, err := s.Credentials.AuthenticateBound(ctx, token, now, proven); !errors.Is(err, store.ErrNotFound) || have.Company != nil {
		t.Errorf("with a proof beside a bearer token: %+v, %v", have, err)
	}
	refused := func(what string, hash [32]byte, at time.Time) {
		t.Helper()
		_, err := s.Credentials.Authenticate(ctx, hash, at)
		if again := s.Credentials.Recheck(ctx, hash, at); !errors.Is(err, store.ErrNotFound) || !errors.Is(again, store.ErrNotFound) {
			t.Errorf("%s: %v, %v", what, err, again)
		}
	}
	refused("ended", token, now.Add(time.Minute))
	_, _, err := s.Agents.Disable(ctx, who, "bot")
	must.OK(t, err)
	refused("disabled", token, now)
	if _, err := s.Federations.IssueFederated(ctx, who, store.Federated{Federation: f, Subject: "x", AgentID: "bot", Ends: now.Add(time.Hour)}, 100); !errors.Is(err, store.ErrDisabled) {
		t.Errorf("to a disabled agent: %v", err)
	}
	got(s.Agents.Enable(ctx, who, "bot"))(t)
	got(s.Credentials.Authenticate(ctx, token, now))(t)
	must.OK(t, s.Federations.Delete(ctx, who, "ci"))
	refused("federation deleted", token, now)
	refused("federation deleted", bound, now)
	got(s.Federations.Create(ctx, who, aFederation("ci"), 3))(t)
	refused("federation made anew", token, now)
	for what, wrong := range map[string]struct {
		store.Federated
		want error
	}{
		"federation gone":  {store.Federated{Federation: f, AgentID: "bot"}, store.ErrNoFederation},
		"agent unknown":    {store.Federated{Federation: f, AgentID: "nobody"}, store.ErrNotFound},
		"assertion is old": {store.Federated{Federation: f, AgentID: "bot", Proofs: []store.UsedProof{{Ends: now}}}, store.ErrUsed},
	} {
		wrong.Federation.CreatedAt = "2020-01-01T00:00:00.000Z"
		wrong.Subject, wrong.Ends = "x", now.Add(time.Hour)
		if _, err := s.Federations.IssueFederated(ctx, who, wrong.Federated, 100); !errors.Is(err, wrong.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Of many requests at once with one assertion, on any server, one gets a token; and of a day, a
// rule and a subject there is one control record.
func TestAssertionCountsOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path, who, f := federated(t)
	servers := []*store.Store{s}
	if storetest.OnPostgres() {
		servers = append(servers, open(t, path))
	}
	won := 0
	for _, err := range atOnce(16, func(i int) error {
		use := store.Federated{Federation: f, Subject: "x", AgentID: "bot", Ends: now.Add(time.Hour), Proofs: []store.UsedProof{store.UsedAssertion(who, f.Issuer, "jti-1", now.Add(time.Hour))}}
		_, err := servers[i%len(servers)].Federations.IssueFederated(ctx, who, use, 100)
		return err
	}) {
		if err == nil {
			won++
		} else if !errors.Is(err, store.ErrUsed) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d tokens for one assertion", won)
	}
	issue := func(who store.Caller, subject string, rule int) {
		t.Helper()
		got(s.Federations.IssueFederated(ctx, who, store.Federated{Federation: f, Subject: subject, Rule: rule, AgentID: "bot", Ends: who.At.Add(time.Hour)}, 100))(t)
	}
	for range 3 {
		issue(who, "x", 0)
		issue(who, "y", 0)
		issue(who, "y", 1)
	}
	tomorrow := who
	tomorrow.At = now.Add(24 * time.Hour)
	issue(tomorrow, "x", 0)
	issue(tomorrow, "x", 0)
	var used []string
	for _, r := range controlRecords(t, s, who.Company) {
		if strings.HasPrefix(r, "federation.used ") {
			used = append(used, r)
		}
	}
	if len(used) != 4 || !strings.Contains(used[0], `"tokenSubject":"x"`) || !strings.Contains(used[0], `"issuer":"https://ci.example"`) || !strings.Contains(used[2], `"rule":1`) || !strings.Contains(used[0], `"agentId":"bot"`) {
		t.Errorf("%d control records:\n%s", len(used), strings.Join(used, "\n"))
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// An attacker who can write rows but has no key makes no token, changes none, and restores none.
func TestForgedFederatedTokenIsRefused(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	for name, change := range map[string]string{
		"for nobody":       `UPDATE federated_token SET delegation = NULL, client = NULL`,
		"for another":      `UPDATE federated_token SET delegation = replace(delegation, 'alice', 'bob')`,
		"another client":   `UPDATE federated_token SET client = (SELECT id FROM oauth_client WHERE client_id <> (SELECT min(client_id) FROM oauth_client))`,
		"another agent":    `UPDATE federated_token SET agent_id = 'boss'`,
		"longer":           `UPDATE federated_token SET expires_at = expires_at + 1`,
		"unbound":          `UPDATE federated_token SET jkt = NULL`,
		"other federation": `UPDATE federated_token SET federation = (SELECT id FROM federation WHERE name = 'second')`,
		"no HMAC":          `UPDATE federated_token SET mac = zeroblob(32)`,
		"federation moved": `UPDATE federation SET created_at = '2020-01-01T00:00:00.000Z'`,
		"federation changed, which the control log says otherwise": `UPDATE federation SET audience = 'x' WHERE name = 'ci'`,
	} {
		s, path, who, f := federated(t)
		got(s.Agents.Register(ctx, who, "boss", nil, store.AgentBounds{Most: 10}))(t)
		got(s.Federations.Create(ctx, who, aFederation("second"), 3))(t)
		clients := []string{}
		for range 2 {
			client, _, err := s.Credentials.CreateClient(ctx, who, full, 10)
			must.OK(t, err)
			clients = append(clients, client.ID)
		}
		token := keys.HashSecret(got(s.Federations.IssueFederated(ctx, who, store.Federated{
			Federation: f, Subject: "x", AgentID: "bot", JKT: "thumb", Ends: now.Add(time.Hour), Client: min(clients[0], clients[1]), Delegation: `{"subject":"alice"}`,
		}, 100))(t))
		proven := func(string) error { return nil }
		got(s.Credentials.AuthenticateBound(ctx, token, now, proven))(t)
		must.OK(t, s.Close())
		must.OK(t, other(t, path, append(guards(t, path), change)...).Close())
		s = open(t, path)
		if have, err := s.Credentials.Authenticate(ctx, token, now); err == nil {
			t.Errorf("%s: %+v without a proof", name, have)
		}
		if have, err := s.Credentials.AuthenticateBound(ctx, token, now, proven); !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrTablesChanged) {
			t.Errorf("%s: %+v, %v", name, have, err)
		}
	}
}

// The token of a person's agent is authenticated with the person and the client, and ends with the
// client.
func TestTokenForPerson(t *testing.T) {
	t.Parallel()
	s, _, who, f := federated(t)
	client, _, err := s.Credentials.CreateClient(ctx, who, full, 10)
	must.OK(t, err)
	const person = `{"act":{"sub":"spiffe://attestd.local/company/acme/agent/bot"},"delegationChain":["https://idp#alice","spiffe://attestd.local/company/acme/agent/bot"],"subject":"https://idp#alice","tokenId":"1"}`
	use := store.Federated{Federation: f, Subject: "alice", AgentID: "bot", Client: client.ID, Delegation: person, Ends: now.Add(time.Minute)}
	token := keys.HashSecret(got(s.Federations.IssueFederated(ctx, who, use, 100))(t))
	for _, have := range []store.Caller{got(s.Credentials.Authenticate(ctx, token, now))(t), got(s.Credentials.Introspect(ctx, who, token))(t)} {
		if have.Delegation != person || have.Client != client.ID || have.Agent != "bot" || have.Role != store.ActsAsAgent {
			t.Errorf("%+v", have)
		}
	}
	_, err = s.Credentials.DeleteClient(ctx, who, client.ID)
	must.OK(t, err)
	if _, err := s.Credentials.Authenticate(ctx, token, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the client is gone: %v", err)
	}
	if err := s.Credentials.Recheck(ctx, token, now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the client is gone: %v", err)
	}
	if _, err := s.Federations.IssueFederated(ctx, who, use, 100); !errors.Is(err, store.ErrNoFederation) {
		t.Errorf("to a client that is gone: %v", err)
	}
	records := strings.Join(controlRecords(t, s, who.Company), "\n")
	if !strings.Contains(records, `"clientId":"`+client.ID+`","federation":"ci"`) {
		t.Errorf("the control log has\n%s", records)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
}

// A rule admits a limited number of new subjects on a day. Each has a control record, those that
// have one continue, other rules have their own limit, and the count restarts on the next day. A
// refusal leaves nothing.
func TestSubjectsOfARuleAreBounded(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, path, who, f := federated(t)
	servers := []*store.Store{s}
	if storetest.OnPostgres() {
		servers = append(servers, open(t, path))
	}
	const most = 5
	as := func(s *store.Store, who store.Caller, rule int, subject string) error {
		use := store.Federated{Federation: f, Rule: rule, Subject: subject, AgentID: "bot", Ends: who.At.Add(time.Hour),
			Proofs: []store.UsedProof{store.UsedAssertion(who, f.Issuer, fmt.Sprint(subject, rule, who.At), who.At.Add(time.Hour))}}
		_, err := s.Federations.IssueFederated(ctx, who, use, most)
		return err
	}
	in := map[string]bool{}
	for i, err := range atOnce(3*most, func(i int) error { return as(servers[i%len(servers)], who, 0, fmt.Sprint("s", i)) }) {
		if err == nil {
			in[fmt.Sprint("s", i)] = true
		} else if !errors.Is(err, store.ErrTooMany) {
			t.Error(err)
		}
	}
	used := func() (n int) {
		for _, r := range controlRecords(t, s, who.Company) {
			if strings.HasPrefix(r, "federation.used ") {
				n++
			}
		}
		return n
	}
	if len(in) != most || used() != most {
		t.Errorf("%d subjects and %d control records, want %d", len(in), used(), most)
	}
	later := who
	later.At = now.Add(time.Minute)
	for i := range 3 * most {
		subject := fmt.Sprint("s", i)
		// a refused one has not used up what it presented
		if err := as(s, who, 0, subject); !in[subject] && !errors.Is(err, store.ErrTooMany) || in[subject] && !errors.Is(err, store.ErrUsed) {
			t.Errorf("%s again: %v", subject, err)
		}
		if err := as(s, later, 0, subject); in[subject] != (err == nil) {
			t.Errorf("%s, which is in: %t: %v", subject, in[subject], err)
		}
	}
	must.OK(t, as(s, who, 1, "other rule"))
	tomorrow := who
	tomorrow.At = now.Add(24 * time.Hour)
	for i := range most {
		must.OK(t, as(s, tomorrow, 0, fmt.Sprint("t", i)))
	}
	if err := as(s, tomorrow, 0, "one more"); !errors.Is(err, store.ErrTooMany) {
		t.Error(err)
	}
	// a server whose clock is behind does not restart the count of the day before
	if err := as(s, later, 0, "one more"); !errors.Is(err, store.ErrTooMany) {
		t.Error(err)
	}
	if n := used(); n != 2*most+1 {
		t.Errorf("%d control records", n)
	}
	must.OK(t, s.VerifyAll(ctx, "", 2, nil, nil))
	must.OK(t, s.Federations.Delete(ctx, who, f.Name))
}
