package evidence_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/must"
)

// The witnesses of the samples are these private keys.
const (
	witnessA = 101
	witnessB = 102
)

// complete is a file with every optional part: two rotations, cosignatures, a delegation, a
// passport with its status, authority. The record is of the second key, the checkpoints of the
// third.
func complete(t testing.TB) *evidence.File {
	c := newCompany(t)
	c.change("company.registered", "company:acme", nil)
	c.change("agent.registered", "agent:planner", map[string]any{"agentId": "planner"})
	c.change("agent.registered", "agent:build-bot", map[string]any{"agentId": "build-bot"})
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	c.add(0, agentID, "deploy", `{"version":2}`, "")
	c.rotateFormerly()
	c.change("passport.issued", "passport:"+jti, map[string]any{"jti": jti, "agentId": agentID, "scopes": []string{"tool:*"}})
	c.change("api-key.created", "api-key:0000000000000000", nil)
	const planner, bot = "spiffe://attestd.local/company/acme/agent/planner", "spiffe://attestd.local/company/acme/agent/build-bot"
	c.add(0, agentID, "deploy", `{ "version": 3.50, "note": "Grüße <b>&amp; \u00fc\n\ud83d\ude00", "list": [1e2, -0.0, null, true] }`,
		`{"act":{"sub":"`+bot+`"},"delegationChain":["`+planner+`","`+bot+`"],"subject":"`+planner+`","tokenId":"11111111-2222-4333-8444-555555555555"}`)
	c.add(0, agentID, "deploy", `{"version":4}`, "")
	c.rotateFormerly()
	revoked := "2026-11-21T09:00:13.000Z"
	c.change("passport.revoked", "passport:"+jti, map[string]any{"jti": jti, "agentId": agentID, "revokedAt": revoked, "reason": "lost"})
	c.change("agent.disabled", "agent:build-bot", map[string]any{"agentId": "build-bot"})
	c.add(0, "other", "deploy", `{"version":5}`, "")

	f := c.file(0, 2, c.checkpoint(0, witnessA, witnessB))
	control := c.checkpoint(1, witnessA)
	f.Witnesses = []string{witnessKey(witnessA), witnessKey(witnessB)}
	f.Passport = &evidence.Passport{JTI: jti, Entries: c.entries(control, func(s string) bool { return s == "passport:"+jti })}
	f.Status = c.status(fmt.Sprintf(`{"jti":%q,"companyId":"acme","status":"revoked","checkedAt":"2026-11-21T09:00:20.000Z","revokedAt":%q,"reason":"lost"}`, jti, revoked))
	signer := "signing-key:" + kid(1)
	f.Authority = &evidence.Authority{Entries: c.entries(control, func(s string) bool {
		return strings.HasPrefix(s, "agent:") || strings.HasPrefix(s, "passport:") || s == signer
	})}
	return f
}

// small is a file without any optional part: one key, one record, no witness.
func small(t testing.TB) *evidence.File {
	c := newCompany(t)
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	return c.file(0, 0, c.checkpoint(0))
}

// control is a file about a control record, of a log whose first key was the company's second: of
// before there was a control log only the keys of actions know.
func control(t testing.TB) *evidence.File {
	c := newCompany(t)
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	c.rotateFormerly()
	c.logs[1].records, c.logs[1].leaves = nil, nil
	c.logs[1].Keys = c.logs[1].Keys[1:]
	c.logs[1].Keys[0].From, c.logs[1].Keys[0].Rotation = 0, nil
	c.change("agent.registered", "agent:build-bot", map[string]any{"agentId": "build-bot"})
	c.change("agent.disabled", "agent:build-bot", map[string]any{"agentId": "build-bot"})
	c.rotateFormerly()
	f := c.file(1, 1, c.checkpoint(1, witnessB))
	f.Witnesses = []string{witnessKey(witnessB)}
	return f
}

// rotated is a file of a company whose second key follows by a statement of the first form and
// whose third by one of the second, in both logs.
func rotated(t testing.TB) *evidence.File {
	c := newCompany(t)
	c.change("agent.registered", "agent:build-bot", map[string]any{"agentId": "build-bot"})
	c.add(0, agentID, "deploy", `{"version":1}`, "")
	c.rotateFormerly()
	c.add(0, agentID, "deploy", `{"version":2}`, "")
	c.rotate()
	c.add(0, agentID, "deploy", `{"version":3}`, "")
	f := c.file(0, 2, c.checkpoint(0, witnessA))
	f.Witnesses = []string{witnessKey(witnessA)}
	f.Authority = &evidence.Authority{Entries: c.entries(c.checkpoint(1, witnessA), func(s string) bool { return strings.HasPrefix(s, "agent:") })}
	return f
}

// policyText takes what the logs of the samples sign with the third key, or the first, and one of
// both witnesses.
func policyText(quorum string) string {
	l := newCompany(nil).logs[0]
	line := func(n byte) string {
		return "log " + tlog.VKey{Name: l.Origin, Type: tlog.TypeEd25519, Public: public(n)}.String() + "\n"
	}
	return line(2) + line(0) + "witness a " + witnessKey(witnessA) + "\nwitness b " + witnessKey(witnessB) + "\ngroup one any a b\nquorum " + quorum + "\n"
}

func policy(t testing.TB, quorum string) *tlog.Policy {
	t.Helper()
	p, err := tlog.ParsePolicy([]byte(policyText(quorum)))
	must.OK(t, err)
	return p
}

// The samples in testdata are these files, byte for byte, and they hold.
func TestSamples(t *testing.T) {
	t.Parallel()
	testdata(t, "policy", []byte(policyText("one")))
	for name, f := range map[string]*evidence.File{"whole": complete(t), "small": small(t), "control": control(t), "rotated": rotated(t)} {
		stored := testdata(t, name+".json", f.JSON())
		if v := evidence.Check(stored, evidence.Trust{}); v.Outcome != evidence.SelfConsistent {
			t.Errorf("%s: %+v", name, v)
		}
		want := evidence.Holds
		if name == "small" { // which has no cosignature
			want = evidence.Fails
		}
		if v := evidence.Check(stored, evidence.Trust{Policy: policy(t, "one")}); v.Outcome != want || want == evidence.Fails && v.Code != evidence.PolicyUnmet {
			t.Errorf("%s with a policy: %+v", name, v)
		}
		if v := evidence.Check(stored, evidence.Trust{Policy: policy(t, "none")}); v.Outcome != evidence.Holds {
			t.Errorf("%s with a policy that asks for no witness: %+v", name, v)
		}
		for n := range byte(len(f.Keys)) {
			if v := evidence.Check(stored, evidence.Trust{Fingerprint: fingerprint(n)}); v.Outcome != evidence.Holds || len(v.NotProven) < 6 || len(v.Checked) < 4 {
				t.Errorf("%s with key %d: %+v", name, n, v)
			}
		}
		if v := evidence.Check(stored, evidence.Trust{Fingerprint: fingerprint(9)}); v.Outcome != evidence.Fails || v.Code != evidence.KeyUntrusted {
			t.Errorf("%s with another key: %+v", name, v)
		}
	}
}

// testdata reads a file that must hold text.
func testdata(t *testing.T, name string, text []byte) []byte {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("WRITE_TESTDATA") != "" {
		must.OK(t, os.WriteFile(file, text, 0o644))
	}
	stored, err := os.ReadFile(file)
	must.OK(t, err)
	if !bytes.Equal(stored, text) {
		t.Errorf("%s is not what it is made of: WRITE_TESTDATA=1 go test ./evidence writes it", file)
	}
	return stored
}
