package server_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attestd/chain/decision"
	"attestd/chain/evidence"
)

// An attestation that asks for a decision may come with the agent's passport: that is checked
// first, and the decision names it. Evidence has its control records, by which a checker finds the
// same.
func TestAttestationIsDecidedByItsPassport(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for _, agent := range []string{"bot", "other"} {
		acme.agent(t, agent)
	}
	passport := acme.passport(t, "bot", `{"scopes":["tool:pay"],"authorizationDetails":[{"type":"tool_call","tools":["pay"],"arguments":{"/amount":{"max":100}}}]}`)
	id := jti(t, acme, passport)
	other := acme.passport(t, "other", `{"scopes":["*"]}`)
	all := acme.passport(t, "bot", `{"scopes":["attest:write"]}`)
	attest := func(passport, action, payload string) (int, decision.Decision) {
		t.Helper()
		r := acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":%q,"payload":%s,"decide":true,"passport":%q}`, action, payload, passport)).status(201)
		if strings.Contains(string(r.raw), passport) {
			t.Error("the record has the passport")
		}
		text, err := json.Marshal(r.at("payload", "decision"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := decision.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return int(r.at("index").(float64)), made
	}
	pay := func(amount string) string { return `{"tool":"pay","input":{"amount":` + amount + `}}` }
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":1,"passport":"`+passport+`"}`).gets(400, `{"error":"Invalid field: passport …"}`)
	check := func(what, passport, action, payload, verdict, code, names string) {
		t.Helper()
		index, made := attest(passport, action, payload)
		if made.Verdict != verdict || made.Code != code || made.Passport != names {
			t.Errorf("%s: %+v", what, made)
		}
		file := acme.do(t, fmt.Sprintf("GET /v1/evidence/%d", index), "").status(200)
		if has := strings.Contains(string(file.raw), `"passports":{"records":[{`); has != (names != "") {
			t.Errorf("%s: the file has passports: %t", what, has)
		}
		if v := evidence.Check(file.raw, evidence.Trust{}); v.Code != "" {
			t.Errorf("%s: %s %s", what, v.Code, v.Reason)
		}
	}
	check("covered", passport, "tool.requested", pay("5"), "allow", "", id)
	check("too much", passport, "tool.requested", pay("500"), "deny", "DETAILS_DENIED", id)
	check("another tool", passport, "tool.requested", `{"tool":"read"}`, "deny", "SCOPE_DENIED", id)
	check("no tool", passport, "deploy", `{}`, "deny", "SCOPE_DENIED", id)
	check("no tool, with the scope", all, "deploy", `{}`, "allow", "", jti(t, acme, all))
	check("another agent's", other, "tool.requested", pay("5"), "deny", "VERIFICATION_ERROR", "")
	check("garbage", "garbage", "tool.requested", pay("5"), "deny", "MALFORMED_TOKEN", "")
	acme.do(t, "POST /v1/passports/"+id+"/revoke", "").status(200)
	check("revoked", passport, "tool.requested", pay("5"), "deny", "PASSPORT_REVOKED", id)

	// one that is bound to a key is proven by that key
	signer := acme.signer(t, "bot", "EdDSA")
	bound := acme.passport(t, "bot", `{"scopes":["tool:pay"],"jkt":"`+signer.key.Key().Thumbprint+`"}`)
	check("bound, without the key", bound, "tool.requested", pay("5"), "deny", "NOT_PROVEN", jti(t, acme, bound))
	admin := acme
	acme = signer.signsIn(t).caller
	if _, made := attest(bound, "tool.requested", pay("5")); made.Verdict != "allow" {
		t.Errorf("bound, by the key: %+v", made)
	}
	acme = admin
}
