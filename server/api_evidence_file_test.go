package server_test

import (
	"fmt"
	"strings"
	"testing"

	"attestd/chain/evidence"
	"attestd/chain/tlog"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/limit"
)

// evidence returns the file about a record, which must verify with each of the given keys.
func (c caller) evidence(t testing.TB, query string) *reply {
	t.Helper()
	r := c.do(t, "GET /v1/evidence/"+query, "").status(200)
	for _, k := range r.at("keys").([]any) {
		pinned := evidence.Trust{Fingerprint: k.(map[string]any)["fingerprint"].(string)}
		if v := evidence.Check(r.raw, pinned); v.Outcome != evidence.Holds {
			t.Errorf("%s: %+v", query, v)
		}
	}
	return r
}

func (c caller) fingerprint(t testing.TB) string {
	t.Helper()
	return c.anyone().do(t, "GET /v1/ca/public-key?companyId="+c.id, "").status(200).str("fingerprint")
}

// Evidence for every record of both logs verifies with any key that the company has had, across
// rotations, a delegation, passports and a disabled agent.
func TestEvidence(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	first := acme.fingerprint(t)
	acme.attestMany(t, 3)
	svid := acme.agent(t, "bot")
	helper := acme.agent(t, "helper")
	lost, stored := jti(t, acme, acme.passport(t, "bot", "")), jti(t, acme, acme.passport(t, "bot", ""))
	tick()
	token, _ := acme.exchange(t, helper, svid)
	acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a","payload":{ "a": 1.50 },"delegation":%q}`, token)).status(201)
	acme.evidence(t, "3")
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":2}`).status(201)
	acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
	acme.do(t, "POST /v1/passports/"+lost+"/revoke", `{"reason":"lost"}`).status(200)
	acme.attestMany(t, 2)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)

	for index := range 7 {
		r := acme.evidence(t, fmt.Sprint(index))
		if keys := r.at("keys").([]any); len(keys) != 3 || keys[0].(map[string]any)["fingerprint"] != first {
			t.Errorf("record %d: %d keys", index, len(keys))
		}
	}
	for index := range acme.controlRecords(t) {
		acme.evidence(t, fmt.Sprintf("%d?log=control", index)).lacks(t, "authority", "passport", "status")
	}
	of := func(r *reply, member string) string {
		var actions []any
		for _, e := range r.at(member, "records").([]any) {
			actions = append(actions, e.(map[string]any)["record"].(map[string]any)["payload"].(map[string]any)["actionType"])
		}
		return fmt.Sprint(actions)
	}
	r := acme.evidence(t, "3?jti="+lost)
	equal(t, "what bears on the action", of(r, "authority"),
		"[agent.registered agent.registered passport.issued passport.issued passport.revoked agent.disabled]")
	equal(t, "what became of the passport", of(r, "passport")+r.str("status", "status"), "[passport.issued passport.revoked]revoked")
	r = acme.evidence(t, "3?jti="+stored)
	equal(t, "a passport that was revoked with its agent", of(r, "passport")+r.str("status", "status"), "[passport.issued agent.disabled]revoked")
	never := "00000000-0000-4000-8000-000000000000"
	r = acme.evidence(t, "3?jti="+never)
	equal(t, "a passport that was never issued", of(r, "passport")+r.str("status", "status"), "[]unknown")
	if v := evidence.Check(r.raw, evidence.Trust{}); !strings.Contains(fmt.Sprint(v.Checked), "nothing here says that the passport "+never+" was ever issued") {
		t.Errorf("%q", v.Checked)
	}
	if !strings.Contains(string(r.raw), `{ "a": 1.50 }`) {
		t.Error("the payload is not as it was sent")
	}

	// A policy with the log's newest vkey accepts the file, one with an older vkey does not.
	vkeys := acme.do(t, "GET /v1/logs", "").status(200).at("logs", 0, "vkeys").([]any)
	policy, err := tlog.ParsePolicy([]byte("log " + vkeys[0].(string) + "\nquorum none\n"))
	must.OK(t, err)
	if v := evidence.Check(r.raw, evidence.Trust{Policy: policy}); v.Outcome != evidence.Holds {
		t.Errorf("%+v", v)
	}

	for call, status := range map[string]int{"7": 404, "-1": 400, "x": 400, "0?log=x": 400, "0?jti=x": 400, "0?log=control&jti=" + stored: 400, "99?log=control": 404} {
		acme.do(t, "GET /v1/evidence/"+call, "").status(status)
	}
}

// lacks demands that the body has none of some members.
func (r *reply) lacks(t testing.TB, members ...string) {
	t.Helper()
	for _, name := range members {
		if _, has := r.json.(map[string]any)[name]; has {
			t.Errorf("%s: the answer has a member %q", r.call, name)
		}
	}
}

// A reader may fetch it; a caller without a credential gets nothing of a company, and another
// company only its own.
func TestEvidenceIsLimitedToCompany(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acme.attestMany(t, 2)
	globex.attestMany(t, 1)
	acme.with(acme.do(t, "POST /v1/keys", `{"role":"reader"}`).status(201).str("key")).evidence(t, "1")
	s.anyone().do(t, "GET /v1/evidence/0", "").status(401)
	globex.do(t, "GET /v1/evidence/1", "").status(404)
	r := globex.evidence(t, "0")
	if v := evidence.Check(r.raw, evidence.Trust{Fingerprint: acme.fingerprint(t)}); r.str("companyId") != "globex" || v.Code != evidence.KeyUntrusted {
		t.Errorf("%+v", v)
	}
}

// Evidence of a record that a witness has covered uses the newest checkpoint that the witness
// cosigned, signed with the current key.
func TestEvidenceIsWitnessed(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme, log, w := watchedCompany(t)
	acme.attestMany(t, 5)
	vkey := w.vkey(t).String()
	eventually(t, "evidence is cosigned", func() bool {
		return strings.Contains(string(acme.do(t, "GET /v1/evidence/4", "").raw), vkey)
	})
	w.stop()
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)
	acme.attestMany(t, 3)
	r := acme.evidence(t, "4")
	if witnesses := r.at("witnesses").([]any); len(witnesses) != 1 || witnesses[0] != vkey || r.at("hexProof", "size") != 5.0 {
		t.Errorf("%s", r.raw)
	}
	newest := acme.actions(t).VKeys[0]
	if newest == log.VKeys[0] {
		t.Fatal("the key was not rotated")
	}
	if r := acme.evidence(t, "7"); len(r.at("witnesses").([]any)) != 0 || r.at("hexProof", "size") != 8.0 {
		t.Errorf("%s", r.raw)
	}
}

// For every payload that fits the default body there is evidence that a checker accepts, even if
// each of its bytes takes the most space; for a larger one the answer says that there is none.
func TestEvidenceOfHeavyPayloads(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Slow, testenv.Plain, testenv.NotRaced)
	s := start(t, func(c *server.Config) { c.MaxBody, c.Budgets = 8<<20, limit.Defaults(8<<20) })
	acme := s.company(t, "acme")
	const fits = 4<<20 - 100
	const elements = 999_999 // a body has no more than a million
	for _, c := range []struct {
		payload string
		status  int
	}{
		{`[` + strings.Repeat(`{},`, elements) + `0]`, 200},
		{`"` + strings.Repeat(`\n`, fits/2) + `"`, 200},
		{`[` + strings.Repeat(`"\n",`, fits/5) + `0]`, 200},
		{`[` + strings.Repeat(`1,`, elements) + `0]`, 200},
		{`"` + strings.Repeat(`\n`, 5<<19) + `"`, 422},
	} {
		index := acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"b","payload":`+c.payload+`}`).status(201).at("index")
		r := acme.do(t, fmt.Sprintf("GET /v1/evidence/%v", index), "").status(c.status)
		if v := evidence.Check(r.raw, evidence.Trust{Fingerprint: acme.fingerprint(t)}); c.status == 200 && v.Outcome != evidence.Holds {
			t.Errorf("%.20s…: %s %s", c.payload, v.Code, v.Reason)
		}
	}
}
