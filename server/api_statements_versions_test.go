package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"attestd/chain/evidence"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store/storetest"
)

// olderDatabase starts a service on a database of schema 20, in which the agent deploy-bot of acme
// has a key that was enrolled before statements had log, and an open session of three statements.
func olderDatabase(t testing.TB) (acme caller, a signer) {
	t.Helper()
	storetest.AboutFile(t)
	var about map[string]struct {
		Keys     []string
		AgentKey json.RawMessage
	}
	text, err := os.ReadFile("../store/testdata/schema-20.json")
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &about))
	content, err := os.ReadFile("../store/testdata/schema-20.db")
	must.OK(t, err)
	path := filepath.Join(t.TempDir(), "attestd.db")
	must.OK(t, os.WriteFile(path, content, 0o600))
	acme = caller{startOn(t, path, cred.Domain{}), "acme", about["acme"].Keys[0]}
	key, err := jose.ParsePrivateKey(about["acme"].AgentKey)
	must.OK(t, err)
	return acme, signer{acme, "deploy-bot", key}
}

// olderClaims are those of a statement without log.
func (a signer) olderClaims(t testing.TB, payload string) statement.Claims {
	t.Helper()
	c := a.claims(t, "note", payload)
	c.Log = ""
	return c
}

// A key that was enrolled before the member log existed continues the session that it has begun,
// and may make either form. The next key of the same agent makes statements with log alone.
func TestOlderKeyMakesEitherForm(t *testing.T) {
	t.Parallel()
	acme, a := olderDatabase(t)
	listed := acme.do(t, "GET /v1/sessions?sid=release-7", "").status(200).at("sessions", 0).(map[string]any)
	if listed["state"] != "open" || listed["last"] != 2.0 {
		t.Fatalf("%v", listed)
	}
	var last struct {
		Payload struct{ Statement string }
	}
	found := acme.do(t, "GET /v1/sessions/deploy-bot/release-7/records", "").status(200).at("records").([]any)
	text, err := json.Marshal(found[len(found)-1])
	must.OK(t, err)
	must.OK(t, json.Unmarshal(text, &last))

	c := a.olderClaims(t, "3")
	c.Session, c.Seq, c.Previous = "release-7", 3, statement.Hash(last.Payload.Statement)
	third := a.states(t, c)
	a.attests(t, "3", third.Compact).status(201)
	c = a.claims(t, "note", "4")
	c.Session, c.Seq, c.Previous, c.End = "release-7", 4, third.Hash(), true
	a.attests(t, "4", a.states(t, c).Compact).status(201)

	delegation := acme.do(t, delegate, `{"agentId":"deploy-bot","actingOn":"acme","scope":"x"}`).status(201).str("token")
	d, err := cred.ReadDelegation(delegation)
	must.OK(t, err)
	withToken := func(c statement.Claims) *reply {
		return a.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"deploy-bot","actionType":"note","payload":5,"statement":%q,"delegation":%q}`, a.states(t, c).Compact, delegation))
	}
	c = a.olderClaims(t, "5")
	c.Delegation = d.Hash()
	withToken(c).has400(t, "STATEMENT_MISMATCH")
	c.Delegation = d.TokenID
	withToken(c).status(201)

	next := newKey(t, jose.ES256)
	a.enrol(t, next).status(201)
	b := signer{acme, "deploy-bot", next}
	b.attests(t, "6", b.states(t, b.olderClaims(t, "6")).Compact).has400(t, "STATEMENT_MALFORMED")
	b.attests(t, "6", b.states(t, b.claims(t, "note", "6")).Compact).status(201)
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
}

// Two services can have a company and an agent of the same names. A statement counts at the one
// whose log it names, and a client learns the log with its key.
func TestStatementIsForOneLog(t *testing.T) {
	t.Parallel()
	here, there := start(t).company(t, "acme"), start(t).company(t, "acme")
	a := here.signer(t, "bot", jose.EdDSA)
	b := signer{there, "bot", a.key}
	there.agent(t, "bot")
	enrolled := b.enrol(t, a.key).status(201)
	for _, texts := range []string{
		enrolled.str("log"),
		there.do(t, "GET "+b.keys(), "").status(200).str("log"),
		b.signsIn(t).do(t, "GET "+b.keys(), "").status(200).str("log"),
	} {
		if texts != b.origin(t) || texts == a.origin(t) {
			t.Errorf("the log is %q", texts)
		}
	}
	made := a.run(t, "run", 3, true)
	for i, s := range made {
		b.attests(t, fmt.Sprint(i), s.Compact).has400(t, "STATEMENT_MISMATCH")
	}
	for i, s := range made {
		a.attests(t, fmt.Sprint(i), s.Compact).status(201)
	}
}

// A delegation token is what its hash says, and not the name of one.
func TestStatementCoversDelegation(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	one := acme.do(t, delegate, `{"agentId":"bot","actingOn":"acme","scope":"x"}`).status(201).str("token")
	other := acme.do(t, delegate, `{"agentId":"bot","actingOn":"globex","scope":"x"}`).status(201).str("token")
	standard := acme.exchanges(t, one, actor(acme.do(t, "GET /v1/agents/bot/svid", "").str("svid"))...)
	hashOf := func(token string) string {
		d, err := cred.ReadDelegation(token)
		must.OK(t, err)
		return d.Hash()
	}
	sends := func(token, hash string) *reply {
		c := a.claims(t, "note", "1")
		c.Delegation = hash
		return a.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"note","payload":1,"statement":%q,"delegation":%q}`, a.states(t, c).Compact, token))
	}
	sends(one, hashOf(other)).has400(t, "STATEMENT_MISMATCH")
	tokens := []string{one, other}
	if standard.code == 200 {
		tokens = append(tokens, standard.str("access_token"))
	}
	for _, token := range tokens {
		record := sends(token, hashOf(token)).status(201)
		text, err := json.Marshal(record.at("delegation"))
		must.OK(t, err)
		if got, err := cred.HashInfo(text); err != nil || got != hashOf(token) {
			t.Errorf("the record has the delegation %s", text)
		}
	}
}

// The sid of one key is no other key's of the same agent, be it in a batch or at once. Another
// agent may use it.
func TestSIDIsOfOneKey(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	b, other := signer{acme, "bot", newKey(t, jose.ES256)}, acme.signer(t, "other", jose.EdDSA)
	a.enrol(t, b.key).status(201)
	begins := func(of signer, sid string) string { return of.run(t, sid, 1, false)[0].Compact }
	const reused = `{"error":"Another key of the agent has used this sid…","code":"STATEMENT_REUSED"}`

	first := begins(a, "run")
	a.attests(t, "0", first).status(201)
	b.attests(t, "0", begins(b, "run")).gets(409, reused)
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+attestBody("bot", "0", begins(b, "new"))+`,`+attestBody("bot", "0", begins(b, "run"))+`]}`).status(409)
	a.attests(t, "0", first).status(201).sets("Idempotent-Replayed: true")
	other.attests(t, "0", begins(other, "run")).status(201)

	// the next key continues in its own session, and names the former one
	c := b.claims(t, "note", "1")
	c.Session, c.Continues = "run-2", &statement.Continues{Session: "run", KeyID: a.thumbprint(), Hash: statement.Hash(first)}
	b.attests(t, "1", b.states(t, c).Compact).status(201)

	for round := range 8 {
		sid := fmt.Sprint("at-once-", round)
		codes := make([]int, 8)
		texts := make([]string, len(codes))
		for i := range texts {
			texts[i] = begins([]signer{a, b}[i%2], sid)
		}
		var all errgroup.Group
		for i := range codes {
			all.Go(func() error {
				codes[i] = acme.do(t, "POST /v1/attest", attestBody("bot", "0", texts[i])).code
				return nil
			})
		}
		must.OK(t, all.Wait())
		if by := acme.do(t, "GET /v1/sessions?sid="+sid, "").at("sessions").([]any); len(by) != 1 {
			t.Errorf("%v: %d keys have the session %s", codes, len(by), sid)
		}
	}
}

// A revocation says since when the key was in other hands, at once or later, and cannot be undone.
func TestRevocationSaysSince(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	key := "DELETE " + a.keys() + "/" + a.thumbprint()
	created := acme.do(t, "GET "+a.keys(), "").str("keys", 0, "createdAt")
	a.attests(t, "1", a.states(t, a.claims(t, "note", "1")).Compact).status(201)
	recorded := acme.do(t, "GET /v1/chain", "").str("records", 0, "timestamp")
	for _, body := range []string{
		`{"since":"2999-01-01T00:00:00.000Z"}`, `{"since":"2020-01-01T00:00:00.000Z"}`, `{"since":"yesterday"}`, `{"since":1}`,
		`{"reason":1}`, `{"reason":"` + string(make16K()) + `"}`, `{"sinse":"x"}`,
	} {
		acme.do(t, key, body).status(400)
	}
	events := func() (list []map[string]any) {
		for _, r := range acme.do(t, "GET /v1/chain?log=control", "").at("records").([]any) {
			payload := r.(map[string]any)["payload"].(map[string]any)
			if payload["actionType"] == "agent-key.revoked" {
				list = append(list, payload["payload"].(map[string]any))
			}
		}
		return list
	}
	if found := events(); len(found) != 0 {
		t.Fatalf("a refused revocation is recorded: %v", found)
	}
	revokedAt := acme.do(t, key, `{"reason":"lost"}`).status(200).str("revokedAt")
	acme.do(t, key, ``).status(200).has(`{"revokedAt":"` + revokedAt + `"}`)
	acme.do(t, key, `{"reason":"another"}`).status(200)
	acme.do(t, key, `{"since":"`+recorded+`"}`).status(200).has(`{"revokedAt":"` + revokedAt + `"}`)
	acme.do(t, key, `{"since":"`+recorded+`"}`).status(200)
	acme.do(t, key, `{"since":"`+revokedAt+`"}`).gets(409, `{"error":"…","code":"SINCE_RECORDED"}`)
	acme.do(t, key, `{"since":"`+created+`","reason":"stolen"}`).status(200)
	want := []map[string]any{{"reason": "lost", "since": nil}, {"reason": nil, "since": recorded}, {"reason": "stolen", "since": created}}
	found := events()
	if len(found) != len(want) {
		t.Fatalf("%v", found)
	}
	for i, e := range found {
		if e["since"] != want[i]["since"] || e["reason"] != want[i]["reason"] || e["revokedAt"] != revokedAt || e["thumbprint"] != a.thumbprint() {
			t.Errorf("revocation %d is %v", i, e)
		}
	}
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)

	// evidence has the first and the last of them, and the verdict says the earliest time
	verdict := evidence.Check(acme.do(t, "GET /v1/evidence/0", "").status(200).raw, evidence.Trust{Fingerprint: acme.fingerprint(t)})
	text := "the key was in other hands since " + created + ", says its revocation (stolen)"
	if verdict.Outcome != evidence.Holds || verdict.Statement.Since != created || !slices.Contains(verdict.Checked, text) {
		t.Errorf("%+v %+v", verdict, verdict.Statement)
	}
	a.attests(t, "2", a.states(t, a.claims(t, "note", "2")).Compact).gets(403, `{"error":"…","code":"STATEMENT_KEY_UNKNOWN"}`)
}

// make16K is one byte more than a reason may have.
func make16K() []byte {
	text := make([]byte, 16<<10+1)
	for i := range text {
		text[i] = 'a'
	}
	return text
}
