package server_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/chain"
	"attestd/chain/evidence"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// controlled returns the control records of a company's log, oldest first.
func (c caller) controlRecords(t testing.TB) (kinds []string) {
	t.Helper()
	for _, r := range c.do(t, "GET /v1/chain?log=control", "").status(200).at("records").([]any) {
		kinds = append(kinds, r.(map[string]any)["payload"].(map[string]any)["actionType"].(string))
	}
	return kinds
}

// entry returns the index of a control entry, or -1 if there is none.
func entry(of any, path ...string) float64 {
	for _, name := range path {
		of = of.(map[string]any)[name]
	}
	if of == nil {
		return -1
	}
	return of.(map[string]any)["index"].(float64)
}

// The question is whether an action was allowed when it happened: the answer follows the control
// log at that time, and later control records are marked as later.
func TestAuthority(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":0}`).status(201)
	tick()
	svid := acme.agent(t, "bot") // control record 2, after the company and its first key
	helper := acme.agent(t, "helper")
	first := jti(t, acme, acme.passport(t, "bot", `{"scopes":["tool:a"]}`)) // 4
	second := jti(t, acme, acme.passport(t, "bot", ""))                     // 5
	tick()
	token, _ := acme.exchange(t, helper, svid)
	acme.do(t, "POST /v1/attest", fmt.Sprintf(`{"agentId":"bot","actionType":"a","payload":1,"delegation":%q}`, token)).status(201)
	tick()
	acme.do(t, "POST /v1/passports/"+first+"/revoke", `{"reason":"lost"}`).status(200) // 6
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)                       // 7
	tick()
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":2}`).status(201)
	tick()
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200) // 8
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)  // 9
	later := jti(t, acme, acme.passport(t, "bot", ""))        // 10

	kinds := strings.Join(acme.controlRecords(t), " ")
	equal(t, "control records", kinds, "company.registered api-key.created agent.registered agent.registered passport.issued passport.issued "+
		"passport.revoked signing-key.rotated agent.disabled agent.enabled passport.issued")

	ask := func(call string) map[string]any {
		return acme.do(t, "GET /v1/authority/"+call, "").status(200).json.(map[string]any)
	}
	state := func(a map[string]any) any { return a["agent"].(map[string]any)["state"] }

	a := ask("0")
	if state(a) != "notRegistered" || entry(a, "agent", "last") != -1 || entry(a, "agent", "next") != 2 || len(a["passports"].([]any)) != 0 || a["delegation"] != nil {
		t.Errorf("before the registration: %v", a)
	}
	if text := fmt.Sprint(a["cannotSay"]); !strings.Contains(text, `Who stands behind the name "bot"`) {
		t.Errorf("what cannot be said of a name that is nobody's: %s", text)
	}

	a = ask("1?jti=" + first)
	if state(a) != "registered" || entry(a, "agent", "registered") != 2 || entry(a, "agent", "last") != 2 || entry(a, "agent", "next") != 8 {
		t.Errorf("the agent at action 1: %v", a["agent"])
	}
	passports := a["passports"].([]any)
	if len(passports) != 2 || entry(passports[0], "issued") != 4 || entry(passports[0], "revoked") != 6 || entry(passports[1], "issued") != 5 || entry(passports[1], "revoked") != 8 {
		t.Errorf("passports at action 1: %v", passports)
	}
	if p := a["passport"].(map[string]any); p["state"] != "issued" || entry(p, "revoked") != 6 {
		t.Errorf("the first passport at action 1: %v", p)
	}
	if agents := a["delegation"].(map[string]any)["agents"].([]any); len(agents) != 2 || entry(agents[0], "registered") != 3 || entry(agents[1], "registered") != 2 || a["delegation"].(map[string]any)["byActor"] != true {
		t.Errorf("the delegation of action 1: %v", a["delegation"])
	}
	if entry(a, "signingKey", "rotated") != -1 || entry(ask("2"), "signingKey", "rotated") != 7 {
		t.Error("the signing keys of actions 1 and 2")
	}

	a = ask("2?jti=" + first)
	if p := a["passport"].(map[string]any); p["state"] != "revoked" {
		t.Errorf("the first passport at action 2: %v", p)
	}
	if passports := a["passports"].([]any); len(passports) != 1 || passports[0].(map[string]any)["jti"] != second {
		t.Errorf("passports at action 2: %v", passports)
	}
	if p := ask("2?jti=" + later)["passport"].(map[string]any); p["state"] != "issuedLater" {
		t.Errorf("the last passport at action 2: %v", p)
	}

	acme.do(t, "GET /v1/authority/3", "").status(404)
	acme.do(t, "GET /v1/authority/-1", "").status(400)
	s.company(t, "globex").do(t, "GET /v1/authority/0", "").status(404)
	if p := s.ofOther(t, acme, second); p["state"] != "neverIssued" {
		t.Errorf("another company about a passport of acme: %v", p)
	}
}

// An older record may be of another agent than the current actor of its delegation. The answer
// reports that with both names. A chain with only the subject has no actor.
func TestAuthorityNamesAnotherActor(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	planner, runner := acme.agent(t, "planner"), acme.agent(t, "runner")
	token, _ := acme.exchange(t, planner, runner)
	acme.do(t, "POST /v1/attest", actedBy("runner", token)).status(201)
	acme.do(t, "POST /v1/attest", actedBy("other", planner)).status(201)
	company, err := s.store.Companies.Get(t.Context(), "acme")
	must.OK(t, err)
	for _, chainOf := range [][]string{{"agent/planner", "agent/runner"}, {"agent/planner", ""}} {
		first, last := acme.companySPIFFE()+"/"+chainOf[0], strings.TrimSuffix(acme.companySPIFFE()+"/"+chainOf[1], "/")
		payload := []byte(`{"actionType":"a","agentId":"other","companyId":"acme","payload":1}`)
		delegation := []byte(`{"act":{"sub":"` + last + `"},"delegationChain":["` + first + `","` + last + `"],"subject":"` + first + `","tokenId":"t"}`)
		_, err = s.store.Append(t.Context(), chain.Draft{Chain: company.Actions.Chain, Payload: payload, Canonical: payload, Delegation: delegation})
		must.OK(t, err)
	}
	for index, byActor := range []bool{true, true, false, false} {
		a := acme.do(t, fmt.Sprint("GET /v1/authority/", index), "").status(200)
		text := fmt.Sprint(a.at("cannotSay"))
		if a.at("delegation", "byActor") != byActor || strings.Contains(text, "That the agent could use the delegation: its current actor is") == byActor {
			t.Errorf("record %d: %s", index, a.raw)
		}
		if index == 2 && !strings.Contains(text, `its current actor is "`+acme.companySPIFFE()+`/agent/runner", and the record is of "other".`) {
			t.Errorf("record %d: %s", index, text)
		}
	}
}

// ofOther queries another company's control log about a passport of c.
func (s *service) ofOther(t testing.TB, c caller, jti string) map[string]any {
	t.Helper()
	other := s.company(t, "initech")
	other.attestMany(t, 1)
	return other.do(t, "GET /v1/authority/0?jti="+jti, "").status(200).json.(map[string]any)["passport"].(map[string]any)
}

// tick lets a millisecond pass, because two logs are ordered only by their times.
func tick() {
	for now := time.Now(); time.Since(now) < 2*time.Millisecond; {
	}
}

// A passport that was signed with the company's key but not by the service verifies as a token,
// although it was never issued.
func TestAuthorityOfAMintedPassport(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	genuine := acme.passport(t, "bot", "")
	acme.attestMany(t, 1)
	claims := jwt.MapClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(genuine, claims)
	must.OK(t, err)
	claims["jti"] = "00000000-0000-4000-8000-000000000000"
	minted := mint(t, acme.privateKey(t), object{"alg": "EdDSA", "kid": acme.kid(t), "typ": "CAP+JWT"}, object(claims))
	if _, err := jwt.Parse(minted, func(*jwt.Token) (any, error) { return acme.publicKey(t), nil }, jwt.WithValidMethods([]string{"EdDSA"})); err != nil {
		t.Errorf("as a token it does not verify: %v", err)
	}
	answer := acme.do(t, "GET /v1/authority/0?jti=00000000-0000-4000-8000-000000000000", "").status(200).json.(map[string]any)
	if p := answer["passport"].(map[string]any); p["state"] != "neverIssued" || p["issued"] != nil {
		t.Errorf("authority says %v", p)
	}
	if !slices.ContainsFunc(answer["cannotSay"].([]any), func(text any) bool { return strings.Contains(text.(string), "never issued") }) {
		t.Errorf("what cannot be said: %v", answer["cannotSay"])
	}
	if listed := answer["passports"].([]any); len(listed) != 1 || listed[0].(map[string]any)["jti"] == "00000000-0000-4000-8000-000000000000" {
		t.Errorf("passports: %v", listed)
	}

	issued := map[string]int{}
	fingerprint := keys.Describe(acme.publicKey(t)).Fingerprint
	report := evidence.CheckReport(bytes.NewReader(acme.do(t, "GET /v1/report", "").status(200).raw), evidence.Trust{Fingerprint: fingerprint},
		func(*evidence.Report) {}, func(e *evidence.Event) { issued[e.Subject]++ })
	if report.Outcome != evidence.Holds || issued["passport:"+jti(t, acme, genuine)] != 1 || issued["passport:00000000-0000-4000-8000-000000000000"] != 0 {
		t.Errorf("the report, which leaves nothing out: %v, %v", report.Outcome, issued)
	}
}
