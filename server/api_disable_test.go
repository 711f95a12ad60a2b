package server_test

import (
	"sync"
	"testing"

	"attestd/internal/testenv"
)

const agentDisabled = `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED"}`

// A disabled agent gets no tokens, nothing is recorded in its name, and its passports are revoked.
// After it is enabled it can get new ones, and the revoked ones stay revoked.
func TestDisableAgent(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	svid, other := acme.agent(t, "bot"), acme.agent(t, "other")
	globex.agent(t, "bot")
	first, second := acme.passport(t, "bot", ""), acme.passport(t, "bot", `{"ttl":60}`)
	others := acme.passport(t, "other", "")
	acted, _ := acme.exchange(t, other, svid) // bot acts for other
	for _, passport := range []string{first, second} {
		// The token is then cached.
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
	}

	const disable, enable = "POST /v1/agents/bot/disable", "POST /v1/agents/bot/enable"
	at := acme.do(t, disable, "").gets(200, `{"agentId":"bot","disabledAt":"<time>","revokedPassports":2}`).str("disabledAt")
	acme.do(t, disable, "").gets(200, `{"agentId":"bot","disabledAt":"`+at+`","revokedPassports":0}`)
	acme.do(t, "GET /v1/agents/bot", "").gets(200, `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"<time>","disabledAt":"`+at+`"}`)

	attest := func(agent, rest string) string {
		return `{"agentId":"` + agent + `","actionType":"a","payload":1` + rest + `}`
	}
	table(t, []row{
		{does: "an SVID", as: acme, call: "GET /v1/agents/bot/svid", status: 403, gets: agentDisabled},
		{does: "registering it again, which gives an SVID", as: acme, call: "POST /v1/agents/register", body: `{"agentId":"bot"}`, status: 403, gets: agentDisabled},
		{does: "a passport", as: acme, call: "POST /v1/agents/bot/passport", status: 403, gets: agentDisabled},
		{does: "a delegation", as: acme, call: "POST /v1/token-exchange", body: `{"agentId":"bot","actingOn":"acme","scope":"x"}`, status: 403, gets: agentDisabled},
		{does: "an exchange in which it is the actor", as: acme, call: "POST /v1/token/exchange", body: exchangeBody(t, other, svid, nil), status: 403, gets: agentDisabled},
		{does: "a record in its name", as: acme, call: "POST /v1/attest", body: attest("bot", ""), status: 403, gets: agentDisabled},
		{does: "a record under a delegation that it holds", as: acme, call: "POST /v1/attest", body: attest("other", `,"delegation":"`+acted+`"`), status: 403, gets: agentDisabled},
		{does: "a record under its SVID", as: acme, call: "POST /v1/attest", body: attest("other", `,"delegation":"`+svid+`"`), status: 403, gets: agentDisabled},
		{does: "its passport", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + first + `"}`, status: 400, gets: `{"valid":false,"error":"…","code":"PASSPORT_REVOKED"}`},
		{does: "rotating its passport", as: acme, call: rotate, headers: []string{passportName + second}, status: 403, gets: agentDisabled},
		{does: "another agent's record", as: acme, call: "POST /v1/attest", body: attest("other", ""), status: 201, gets: `"<anything>"`},
		{does: "another agent's passport", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + others + `"}`, status: 200, gets: `"<anything>"`},
		{does: "an agent of the same name elsewhere", as: globex, call: "POST /v1/attest", body: attest("bot", ""), status: 201, gets: `"<anything>"`},
		{does: "its status", as: acme, call: "GET /v1/ocsp/" + jti(t, acme, first), status: 200,
			gets: `{"jti":"<uuid>","companyId":"acme","status":"revoked","checkedAt":"<time>","revokedAt":"` + at + `","reason":"the agent was disabled","caPublicKey":"<pem>","signature":"<signature>"}`},
		{does: "disabling one that is not there", as: acme, call: "POST /v1/agents/nobody/disable", status: 404, gets: `{"error":"Agent not found: nobody"}`},
		{does: "enabling one that is not there", as: acme, call: "POST /v1/agents/nobody/enable", status: 404, gets: `{"error":"Agent not found: nobody"}`},
	})

	acme.do(t, enable, "").gets(200, `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"<time>"}`)
	acme.do(t, "POST /v1/attest", attest("bot", "")).status(201)
	acme.do(t, "GET /v1/agents/bot/svid", "").status(200)
	acme.passport(t, "bot", "")
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+first+`"}`).status(400)
}

// If issuing and disabling run concurrently, the agent holds no valid passport afterwards.
func TestDisablingRevokesConcurrentlyIssuedPassports(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for range 10 {
		acme.agent(t, "bot")
		var issuing sync.WaitGroup
		for range 4 {
			issuing.Go(func() {
				for range 5 {
					acme.do(t, "POST /v1/agents/bot/passport", "")
				}
			})
		}
		acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
		issuing.Wait()
		var page struct {
			Passports []struct{ JTI, Status string }
		}
		acme.do(t, "GET /v1/passports?limit=1000", "").status(200).into(&page)
		for _, p := range page.Passports {
			if p.Status != "revoked" {
				t.Fatalf("passport %s of a disabled agent is %s", p.JTI, p.Status)
			}
		}
		acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	}
}

// With If-None-Match: * an existing agent is left unchanged.
func TestRegisterOnlyANewAgent(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	const register, unless = "POST /v1/agents/register", "If-None-Match: *"
	acme.do(t, register, `{"agentId":"bot","metadata":{"v":1}}`, unless).status(201)
	acme.do(t, register, `{"agentId":"bot","metadata":{"v":2}}`, unless).gets(412, `{"error":"Agent is registered already: bot"}`)
	acme.do(t, "GET /v1/agents/bot", "").gets(200, `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"<time>","metadata":{"v":1}}`)
	acme.do(t, register, `{"agentId":"bot"}`, `If-None-Match: "x"`).gets(400, `{"error":"…If-None-Match…"}`)
}
