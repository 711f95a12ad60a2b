package server_test

import (
	"strings"
	"testing"

	"attestd/internal/testenv"
)

// A misspelt member never creates a credential or a token with more rights than intended; any other
// member that the specification does not have is ignored.
func TestMisspeltMembers(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	meant := func(name, right string) string {
		return `{"error":"Unknown field \"` + name + `\"; did you mean ` + right + `?"}`
	}
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	form := "Content-Type: application/x-www-form-urlencoded"
	grant := "grant_type=client_credentials&client_id=" + client.str("clientId") + "&client_secret=" + client.str("clientSecret")
	table(t, []row{
		{does: "a role", as: acme, call: "POST /v1/keys", body: `{"rol":"reader"}`, status: 400, gets: meant("rol", "role")},
		{does: "an end", as: acme, call: "POST /v1/keys", body: `{"expires":"2030-01-01T00:00:00.000Z"}`, status: 400, gets: meant("expires", "expiresAt")},
		{does: "a role beside a good one", as: acme, call: "POST /v1/keys", body: `{"role":"reader","Role":"admin"}`, status: 400, gets: meant("Role", "role")},
		{does: "a role in the query", as: acme, call: "POST /v1/keys?role=reader", status: 400, gets: `{"error":"Unknown query parameter \"role\"; it is a member of the body"}`},
		{does: "a role of a client", as: acme, call: "POST /v1/oauth/clients", body: `{"ROLE":"reader"}`, status: 400, gets: meant("ROLE", "role")},
		{does: "scopes", as: acme, call: "POST /v1/agents/bot/passport", body: `{"scope":["tool:read"]}`, status: 400, gets: meant("scope", "scopes")},
		{does: "a life", as: acme, call: "POST /v1/agents/bot/passport", body: `{"Ttl":1}`, status: 400, gets: meant("Ttl", "ttl")},
		{does: "a delegation", as: acme, call: "POST /v1/attest", body: `{"agentId":"bot","actionType":"a","payload":1,"delegations":"x"}`, status: 400, gets: meant("delegations", "delegation")},
		{does: "whom it acts for", as: acme, call: "POST /v1/token-exchange", body: `{"agentId":"bot","acting_on":"acme","scope":"a"}`, status: 400, gets: meant("acting_on", "actingOn")},
		{does: "an item of a batch", as: acme, call: "POST /v1/attest/batch", body: `{"records":[{"agentId":"bot","actionType":"a","payload":1,"idempotency_key":"x"}]}`, status: 400,
			gets: `{"error":"Unknown field \"idempotency_key\"; did you mean idempotencyKey?","pointer":"/records/0/idempotency_key"}`},
		{does: "a part of a key rotation", as: acme, call: "POST /v1/companies/rotate-keys", body: `{"compromise":true}`, status: 400, gets: meant("compromise", "compromised")},
		{does: "something where nothing is asked for", as: acme, call: "POST /v1/agents/bot/disable", body: `{"reason":"x"}`, status: 400, gets: `{"error":"Unknown field \"reason\""}`},
		{does: "an empty object where nothing is asked for", as: acme, call: "POST /v1/agents/bot/disable", body: `{}`, status: 200, gets: `{"agentId":"bot","disabledAt":"…","revokedPassports":0}`},
		{does: "a role at the token endpoint", as: s.anyone(), call: "POST /v1/oauth/token", body: grant + "&role=reader", headers: []string{form}, status: 400,
			gets: `{"error":"invalid_request","error_description":"Unknown field \"role\""}`},
	})
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	acme.do(t, "GET /v1/records?foo=1", "").gets(400, `{"error":"Unknown query parameter \"foo\""}`)
	acme.do(t, "GET /v1/records?ordr=newest", "").gets(400, `{"error":"Unknown query parameter \"ordr\"; did you mean order?"}`)
	acme.do(t, "GET /v1/records?Agent_ID=bot", "").gets(400, `{"error":"Unknown query parameter \"Agent_ID\"; did you mean agent?"}`)
	// A member without effect on rights is ignored, and a declared member never counts as misspelt.
	acme.do(t, "POST /v1/keys?x=1&x=2&%zz&a;b", `{"label":"a","name":"b","":1,"x":{"role":"reader"}}`).status(201)
	acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"a","payload":{"delegations":1},"companyId":"other","foo":1}`).status(201)
	acme.do(t, "POST /v1/token-exchange", `{"agentId":"bot","actingOn":"acme","scope":"a","foo":1}`).status(201)
	s.anyone().do(t, "POST /v1/oauth/token", grant+"&audience=y&code=z", form).status(200)
	if keys := acme.do(t, "GET /v1/keys", "").status(200); strings.Count(string(keys.raw), `"key"`) != 2 {
		t.Errorf("%s", keys.raw)
	}
}

// The hook asks for a passport or refuses the address: a misspelt parameter never makes it go on
// without a passport.
func TestHookAddressIsRead(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, query := range []string{"requires=passport", "Require=passport", "REQUIRE=passport", "require=passport&require=passport", "require=&require=passport",
		"require=passport;x", "agent=a;require=passport", "require=%zz", "%zz", "require%3Dpassport", "require=Passport", "x=1", "agent=%zz&require=passport"} {
		r := acme.do(t, hook+"?"+query, event("PreToolUse", "t1", `,"tool_input":{}`)).gets(400, `{"error":"…query parameter…"}`)
		if strings.HasPrefix(strings.ToLower(query), "requires=") && !strings.Contains(string(r.raw), "did you mean require?") {
			t.Errorf("%s", r.raw)
		}
	}
	if got := acme.hooked(t); len(got) != 0 {
		t.Errorf("%q", got)
	}
}
