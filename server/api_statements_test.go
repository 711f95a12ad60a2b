package server_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A record contains the statement of its action, and a statement is its own idempotency key.
func TestStatementIsRecordedOnce(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		a := acme.signer(t, "bot-"+algorithm, algorithm)
		const payload = `{"b":1,"a":"ü"}`
		text := a.states(t, a.claims(t, "note", payload))
		first := a.attests(t, payload, text.Compact).sets("Idempotent-Replayed:")
		first.has(`{"payload":{"statement":"` + text.Compact + `","agentId":"` + a.agentID + `"}}`)
		again := a.attests(t, payload, text.Compact).status(201).sets("Idempotent-Replayed: true")
		if string(first.raw) != string(again.raw) {
			t.Errorf("first %s, then %s", first.raw, again.raw)
		}
		if algorithm == jose.ES256 { // anyone who sees the signature can write another valid one
			a.attests(t, payload, twin(t, text.Compact)).status(201).sets("Idempotent-Replayed: true")
		}
		acme.do(t, "POST /v1/attest/batch", `{"records":[`+attestBody(a.agentID, payload, text.Compact)+`]}`).status(201).sets("Idempotent-Replayed: true")
	}
	acme.do(t, "GET /v1/verify", "").has(`{"valid":true}`)
	if n := len(acme.do(t, "GET /v1/chain", "").at("records").([]any)); n != 2 {
		t.Errorf("%d records", n)
	}
}

// Every row of the contract's table, in its order: of two faults the first is named.
func TestStatementIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	a, other := acme.signer(t, "bot", jose.EdDSA), acme.signer(t, "other", jose.ES256)
	elsewhere := zoo.signer(t, "bot", jose.EdDSA)
	delegation := acme.do(t, delegate, `{"agentId":"bot","actingOn":"acme","scope":"x"}`).status(201)
	claims := func(change func(c *statement.Claims)) string {
		c := a.claims(t, "note", "1")
		change(&c)
		return a.states(t, c).Compact
	}
	sound := claims(func(*statement.Claims) {})
	unknown := signer{acme, "bot", newKey(t, jose.EdDSA)}
	for _, c := range []struct {
		does, statement string
		status          int
		code            string
	}{
		{"no JWS", "x", 400, "STATEMENT_MALFORMED"},
		{"empty", "", 201, ""},
		{"cut short", sound[:len(sound)-2], 400, "STATEMENT_MALFORMED"},
		{"a key that nobody enrolled", unknown.states(t, unknown.claims(t, "note", "1")).Compact, 403, "STATEMENT_KEY_UNKNOWN"},
		{"a key of another agent", other.states(t, a.claims(t, "note", "1")).Compact, 403, "STATEMENT_KEY_UNKNOWN"},
		{"a key of another company", elsewhere.states(t, a.claims(t, "note", "1")).Compact, 403, "STATEMENT_KEY_UNKNOWN"},
		{"a changed signature", tampered(sound), 400, "STATEMENT_SIGNATURE_INVALID"},
		{"the older form", claims(func(c *statement.Claims) { c.Log = "" }), 400, "STATEMENT_MALFORMED"},
		{"another log", claims(func(c *statement.Claims) { c.Log = elsewhere.origin(t) }), 400, "STATEMENT_MISMATCH"},
		{"another agent", claims(func(c *statement.Claims) { c.Issuer = other.spiffe() }), 400, "STATEMENT_MISMATCH"},
		{"another company", claims(func(c *statement.Claims) { c.Audience = zoo.companySPIFFE() }), 400, "STATEMENT_MISMATCH"},
		{"another payload", claims(func(c *statement.Claims) { c.ActionHash = a.claims(t, "note", "2").ActionHash }), 400, "STATEMENT_MISMATCH"},
		{"another type", claims(func(c *statement.Claims) { c.ActionHash = a.claims(t, "deploy", "1").ActionHash }), 400, "STATEMENT_MISMATCH"},
		{"a delegation that was not sent", claims(func(c *statement.Claims) { c.Delegation = c.ActionHash }), 400, "STATEMENT_MISMATCH"},
		{"the future", claims(func(c *statement.Claims) { c.IssuedAt += 90 }), 400, "STATEMENT_TIME"},
		{"long ago", claims(func(c *statement.Claims) { c.IssuedAt -= 31 * 24 * 3600 }), 400, "STATEMENT_TIME"},
	} {
		t.Run(c.does, func(t *testing.T) {
			answer := a.attests(t, "1", c.statement).status(c.status)
			if c.code != "" && answer.str("code") != c.code {
				t.Errorf("code %s", answer.str("code"))
			}
		})
	}
	a.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"note","payload":1,"statement":7}`).has400(t, "STATEMENT_MALFORMED")
	a.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"note","payload":1,"statment":"x"}`).status(400)

	withToken := func(compact string) *reply {
		return a.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"note","payload":1,"statement":%q,"delegation":%q}`, compact, delegation.str("token")))
	}
	withToken(sound).has400(t, "STATEMENT_MISMATCH")
	d, err := cred.ReadDelegation(delegation.str("token"))
	must.OK(t, err)
	withToken(claims(func(c *statement.Claims) { c.Delegation = c.ActionHash })).has400(t, "STATEMENT_MISMATCH")
	withToken(claims(func(c *statement.Claims) { c.Delegation = d.Hash() })).status(201)

	used := claims(func(c *statement.Claims) { c.ID, c.Session = "once", "run" })
	a.attests(t, "1", used).status(201)
	const reused = `{"error":"…","code":"STATEMENT_REUSED"}`
	a.attests(t, "1", claims(func(c *statement.Claims) { c.ID = "once" })).gets(409, reused)
	a.attests(t, "1", claims(func(c *statement.Claims) { c.Session = "run" })).gets(409, reused)
	a.attests(t, "1", claims(func(c *statement.Claims) { c.Session = "another-run" })).status(201)

	waiting := claims(func(*statement.Claims) {})
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	a.attests(t, "1", used).gets(403, `{"error":"…","code":"AGENT_DISABLED"}`)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	a.attests(t, "1", used).status(201).sets("Idempotent-Replayed: true")
	acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
	a.attests(t, "1", waiting).gets(403, `{"error":"…","code":"STATEMENT_KEY_UNKNOWN"}`)
	a.attests(t, "1", used).gets(403, `{"error":"…","code":"STATEMENT_KEY_UNKNOWN"}`)
}

// has400 demands a refusal with a code.
func (r *reply) has400(t testing.TB, code string) {
	t.Helper()
	if r.status(400); r.str("code") != code {
		t.Errorf("%s: code %s, want %s", r.call, r.str("code"), code)
	}
}

// Of many servers' worth of the same statement at once, and of others in its place, one is
// recorded.
func TestStatementsAtOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	texts := make([]string, 24)
	for i := range texts { // three statements of one place, each eight times
		c := a.claims(t, "note", fmt.Sprint(i%3))
		c.Session, c.ID = "run", fmt.Sprint("id-", i%3)
		c.IssuedAt = time.Now().Truncate(time.Hour).Unix() // of all eight the same
		texts[i] = a.states(t, c).Compact
	}
	codes := make([]int, len(texts))
	var all errgroup.Group
	for i := range texts {
		all.Go(func() error { codes[i] = a.attests(t, fmt.Sprint(i%3), texts[i]).code; return nil })
	}
	must.OK(t, all.Wait())
	accepted := map[int]int{}
	for i, code := range codes {
		if code != 201 && code != 409 {
			t.Errorf("answered %d", code)
		}
		if code == 201 {
			accepted[i%3]++
		}
	}
	if n := len(acme.do(t, "GET /v1/chain", "").at("records").([]any)); len(accepted) != 1 || n != 1 {
		t.Errorf("%v accepted, %d records", accepted, n)
	}
}

// tampered changes the first character of a signature.
func tampered(compact string) string {
	b := []byte(compact)
	if at := &b[len(b)-86]; *at == 'A' {
		*at = 'B'
	} else {
		*at = 'A'
	}
	return string(b)
}
