package evidence_test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

const (
	enrolmentToken = "enr:5feceb66ffc86f38"
	delegated      = `{"act":null,"delegationChain":["spiffe://attestd.local/company/acme"],"subject":"spiffe://attestd.local/company/acme","tokenId":"d-1"}`
)

// signed is a file about a record that the agent's third key signed, with P-256. Its first key was
// enrolled with a token, and each of the others by the key before it. The first one was revoked
// since.
func signed(t testing.TB) *evidence.File {
	c, keys := signedCompany(t)
	f := c.agentKeyFile(1, keys...)
	f.Proof = c.proof(0, 1, c.checkpoint(0, witnessA, witnessB))
	f.AgentKey.Entries = c.keyEntries(c.checkpoint(1, witnessA), keys...)
	f.Witnesses = []string{witnessKey(witnessA), witnessKey(witnessB)}
	f.Authority = &evidence.Authority{Entries: c.entries(c.checkpoint(1, witnessA), func(s string) bool { return s == "agent:"+agentID })}
	return f
}

func signedCompany(t testing.TB) (c *company, keys []string) {
	c = newCompany(t)
	first, second, third := agentKey(t, jose.EdDSA, 1), agentKey(t, jose.EdDSA, 2), agentKey(t, jose.ES256, 3)
	c.change("agent.registered", "agent:"+agentID, map[string]any{"agentId": agentID})
	keys = append(keys, c.enrol(agentID, first.Key(), map[string]any{"by": enrolmentToken, "enrolment": enrolmentToken}))
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	keys = append(keys, c.enrol(agentID, second.Key(), map[string]any{
		"by": "agent-key:" + keys[0], "endorsement": c.endorse(agentID, first, second.Key()), "label": "laptop"}))
	c.rotate()
	keys = append(keys, c.enrol(agentID, third.Key(), map[string]any{
		"by": "agent-key:" + keys[1], "endorsement": c.endorse(agentID, second, third.Key()), "expiresAt": "2026-12-21T09:00:00.000Z"}))
	c.revoke(agentID, first.Key())
	s := c.state(third, agentID, "deploy", `{ "version": 3.50, "note": "Grüße \u00fc" }`, func(claims *statement.Claims) {
		claims.Session, claims.Seq, claims.Delegation, claims.Previous = "run-1", 7, "d-1", strings.Repeat("0a", 32)
	})
	c.addStated(agentID, "deploy", `{ "version": 3.50, "note": "Grüße \u00fc" }`, s.Compact, delegated)
	return c, keys
}

// admitted is a file about a record that a key signed which an admin enrolled, in a session of one.
func admitted(t testing.TB) *evidence.File {
	c := newCompany(t)
	key := agentKey(t, jose.EdDSA, 1)
	kid := c.enrol(agentID, key.Key(), nil)
	c.states(key, "run-1", 1, true)
	return c.agentKeyFile(0, kid)
}

// sessions are files of sessions: sealed and complete, open, and with records missing, one of them
// the first.
func sessions(t testing.TB) map[string][]byte {
	c := newCompany(t)
	first, second := agentKey(t, jose.EdDSA, 1), agentKey(t, jose.ES256, 4)
	keys := []string{c.enrol(agentID, first.Key(), map[string]any{"enrolment": enrolmentToken})}
	c.add(0, "other", "deploy", `{"version":1}`, "")
	c.states(first, "sealed", 4, true)
	c.rotate()
	keys = append(keys, c.enrol(agentID, second.Key(), map[string]any{"endorsement": c.endorse(agentID, first, second.Key())}))
	c.states(second, "open", 6, false)
	c.states(first, "sealed-2", 1, true)
	return map[string][]byte{
		"session-complete": c.session(keys[0], "sealed", keys[:1], 1, 2, 3, 4),
		"session-one":      c.session(keys[0], "sealed-2", keys[:1], 11),
		"session-open":     c.session(keys[1], "open", keys, 5, 6, 7, 8, 9, 10),
		"session-missing":  c.session(keys[1], "open", keys, 6, 8, 9),
	}
}

func pins(t testing.TB) (first, second, third, other string) {
	return agentKey(t, jose.EdDSA, 1).key.Thumbprint, agentKey(t, jose.EdDSA, 2).key.Thumbprint, agentKey(t, jose.ES256, 3).key.Thumbprint,
		agentKey(t, jose.EdDSA, 9).key.Thumbprint
}

// The samples of statements are these files, byte for byte, and the verdict says whose word they
// are, with a pin and without one.
func TestSamplesOfStatements(t *testing.T) {
	t.Parallel()
	first, second, third, other := pins(t)
	for _, sample := range []struct {
		name, signer, by string
		file             *evidence.File
		pins             []string
	}{
		{"signed", third, "the key before it, " + second, signed(t), []string{first, second, third}},
		{"admitted", first, "an admin's credential, api-key:9f86d081884c7d65", admitted(t), []string{first}},
	} {
		text := testdata(t, sample.name+".json", sample.file.JSON())
		v := evidence.Check(text, evidence.Trust{})
		if v.Outcome != evidence.SelfConsistent || v.Statement.Pinned || v.Statement.KeyID != sample.signer ||
			!strings.Contains(strings.Join(v.Checked, "\n"), "a key that the company enrolled for this agent signed this: "+sample.signer+", enrolled at 2026-11-21T09:00:0") ||
			!strings.Contains(strings.Join(v.Checked, "\n"), "by "+sample.by) {
			t.Errorf("%s: %+v %+v", sample.name, v, v.Statement)
		}
		for _, pin := range sample.pins {
			v := evidence.Check(text, evidence.Trust{Fingerprint: fingerprint(0), AgentKey: pin})
			if v.Outcome != evidence.Holds || !v.Statement.Pinned || !strings.Contains(strings.Join(v.Checked, "\n"), "the agent's own key "+sample.signer+" signed this") {
				t.Errorf("%s, pinned %s: %+v", sample.name, pin, v)
			}
		}
		if v := evidence.Check(text, evidence.Trust{Fingerprint: fingerprint(0), AgentKey: other}); v.Code != evidence.BadStatement || v.Statement != nil ||
			!strings.Contains(v.Reason, sample.signer) || !strings.Contains(v.Reason, sample.by) {
			t.Errorf("%s, another key pinned: %+v", sample.name, v)
		}
		// with a pin alone nothing says whose the company's keys are
		if v := evidence.Check(text, evidence.Trust{AgentKey: sample.pins[0]}); v.Outcome != evidence.SelfConsistent || !v.Statement.Pinned {
			t.Errorf("%s, pinned alone: %+v", sample.name, v)
		}
	}
	if v := evidence.Check(complete(t).JSON(), evidence.Trust{Fingerprint: fingerprint(0), AgentKey: first}); v.Code != evidence.BadStatement {
		t.Errorf("a record without a statement, with a pin: %+v", v)
	}
}

// The verdict in JSON is the one that is documented.
func TestVerdictOfStatement(t *testing.T) {
	t.Parallel()
	first, second, third, _ := pins(t)
	const names = `"iss":"` + spiffeCompany + `/agent/build-bot","aud":"` + spiffeCompany + `","log":"",`
	for name, test := range map[string]struct {
		file *evidence.File
		want string
	}{
		"signed": {signed(t), `{"kid":"` + third + `","enrolledAt":"2026-11-21T09:00:06.000Z","enrolledBy":{"kind":"key","name":"` + second +
			`"},"pinned":false,` + names + `"session":{"sid":"run-1","seq":7}}`},
		"admitted": {admitted(t), `{"kid":"` + first + `","enrolledAt":"2026-11-21T09:00:01.000Z","enrolledBy":{"kind":"credential","name":` +
			`"api-key:9f86d081884c7d65"},"pinned":false,` + names + `"session":{"sid":"run-1","seq":0}}`},
	} {
		text, err := json.Marshal(evidence.Check(test.file.JSON(), evidence.Trust{}).Statement)
		must.OK(t, err)
		if string(text) != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}
