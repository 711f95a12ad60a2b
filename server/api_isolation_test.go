package server_test

import (
	"fmt"
	"strings"
	"testing"
)

// Two companies use the same names for everything: neither ever sees data of the other at any
// endpoint.
func TestIsolation(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	acmeSVID := acme.agent(t, "bot")
	globexSVID := globex.agent(t, "bot")
	acme.do(t, "POST /v1/agents/register", `{"agentId":"secret-agent","metadata":{"of":"acme"}}`).status(201)
	acme.do(t, "POST /v1/agents/register", `{"agentId":"bot","metadata":{"of":"acme"}}`).status(201)
	passport := acme.passport(t, "bot", "")
	id := jti(t, acme, passport)
	revokedID := jti(t, acme, acme.passport(t, "bot", ""))
	acme.do(t, "POST /v1/passports/"+revokedID+"/revoke", `{"reason":"acme only"}`).status(200)
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201).str("clientId")
	second := acme.do(t, "POST /v1/keys", `{"label":"acme only"}`).status(201).str("key")
	delegation, _ := acme.exchange(t, acmeSVID, acme.agent(t, "other"))
	acme.attestMany(t, 3)
	acme.grow(t, "control", 3)
	control := acme.logNamed(t, "control")
	cursor := acme.do(t, "GET /v1/records?limit=1", "").status(200).str("next")

	const empty = `{"valid":true,"merkleRoot":"` + emptyRoot + `"}`
	for _, them := range []caller{globex, globex.with(globex.oauthToken(t))} {
		clients := them.do(t, "GET /v1/oauth/clients", "").gets(200, `{"clients":["<anything>"]}`)
		if clients.str("clients", 0, "clientId") == client {
			t.Error("globex sees acme's OAuth client")
		}
		rows := []row{
			{does: "company", as: them, call: "GET /v1/company", status: 200, gets: `{"companyId":"globex","spiffeId":"spiffe://attestd.local/company/globex","registeredAt":"<time>"}`},
			{does: "company SVID", as: them, call: "POST /v1/companies/svid", status: 200, gets: `{"companyId":"globex","spiffeId":"spiffe://attestd.local/company/globex","svid":"<token>"}`},
			{does: "an agent of the same name", as: them, call: "GET /v1/agents/bot", status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/globex/agent/bot","companyId":"globex","registeredAt":"<time>"}`},
			{does: "SVID of an agent of the same name", as: them, call: "GET /v1/agents/bot/svid", status: 200, gets: `{"agentId":"bot","spiffeId":"spiffe://attestd.local/company/globex/agent/bot","svid":"<token>"}`},
			{does: "agents", as: them, call: "GET /v1/agents", status: 200, gets: `{"agents":[{"agentId":"bot","spiffeId":"<anything>","companyId":"globex","registeredAt":"<time>"}],"total":1}`},
			{does: "agent", as: them, call: "GET /v1/agents/secret-agent", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "SVID", as: them, call: "GET /v1/agents/secret-agent/svid", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "passport for an agent", as: them, call: "POST /v1/agents/secret-agent/passport", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "disable an agent", as: them, call: "POST /v1/agents/secret-agent/disable", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "enable an agent", as: them, call: "POST /v1/agents/secret-agent/enable", status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "delete an OAuth client", as: them, call: "DELETE /v1/oauth/clients/" + client, status: 404, gets: `{"error":"OAuth client not found"}`},
			{does: "what a credential of acme has made", as: them, call: "GET /v1/credentials?madeBy=" + fingerprint(acme.credential), status: 200, gets: `{"credentials":[]}`},
			{does: "delegation to an agent", as: them, call: delegate, body: `{"agentId":"secret-agent","actingOn":"acme","scope":"x"}`, status: 404, gets: `{"error":"Agent not found: secret-agent"}`},
			{does: "a foreign subject", as: them, call: exchange, body: exchangeBody(t, acmeSVID, globexSVID, nil), status: 400, gets: `{"error":"…"}`},
			{does: "a foreign actor", as: them, call: exchange, body: exchangeBody(t, globexSVID, acmeSVID, nil), status: 400, gets: `{"error":"…"}`},
			{does: "a foreign delegation", as: them, call: "POST /v1/attest", body: `{"agentId":"bot","actionType":"x","payload":1,"delegation":"` + delegation + `"}`, status: 400, gets: `{"error":"Invalid delegation: …"}`},
			{does: "keys", as: them, call: "GET /v1/keys", status: 200, gets: `{"keys":[{"key":"` + globex.credential + `","label":"bootstrap","createdAt":"<time>"}]}`},
			{does: "delete a key", as: them, call: "DELETE /v1/keys/" + second, status: 404, gets: `{"error":"API key not found"}`},
			{does: "delete the bootstrap key", as: them, call: "DELETE /v1/keys/" + acme.credential, status: 404, gets: `{"error":"API key not found"}`},
			{does: "chain", as: them, call: "GET /v1/chain", status: 200, gets: `{"records":[]}`},
			{does: "records", as: them, call: "GET /v1/records", status: 200, gets: `{"records":[],"size":0,"read":{"from":0,"to":0}}`},
			{does: "records at a place of acme's", as: them, call: "GET /v1/records?cursor=" + cursor, status: 400, gets: `{"error":"…"}`},
			{does: "records counted", as: them, call: "GET /v1/records/histogram", status: 200, gets: `{"since":"<time>","until":"<time>","total":0,"size":0,"buckets":[]}`},
			{does: "verify", as: them, call: "GET /v1/verify", status: 200, gets: empty},
			{does: "proof", as: them, call: "GET /v1/proof/0", status: 404, gets: `{"error":"…"}`},
			{does: "proof of the control log", as: them, call: fmt.Sprintf("GET /v1/proof/%d?log=control", control.Size-1), status: 404, gets: `{"error":"…"}`},
			{does: "checkpoint of the control log", as: them, call: "GET /v1/log/" + control.LogID + "/checkpoint", status: 404, gets: `{"error":"Log not found: ` + control.LogID + `"}`},
			{does: "passports", as: them, call: "GET /v1/passports", status: 200, gets: `{"passports":[]}`},
			{does: "revoked passports", as: them, call: "GET /v1/passports/revoked", status: 200, gets: `{"revoked":[]}`},
			{does: "status of a passport", as: them, call: "GET /v1/ocsp/" + id, status: 200, gets: `{"jti":"` + id + `","companyId":"globex","status":"unknown","checkedAt":"<time>","caPublicKey":"<pem>","signature":"<signature>"}`},
			{does: "status of a revoked passport", as: them, call: "GET /v1/ocsp/" + revokedID, status: 200, gets: `{"jti":"` + revokedID + `","companyId":"globex","status":"unknown","checkedAt":"<time>","caPublicKey":"<pem>","signature":"<signature>"}`},
			{does: "revoke a passport", as: them, call: "POST /v1/passports/" + id + "/revoke", status: 404, gets: `{"error":"…","code":"PASSPORT_NOT_FOUND"}`},
			{does: "revoke a revoked passport", as: them, call: "POST /v1/passports/" + revokedID + "/revoke", status: 404, gets: `{"error":"…","code":"PASSPORT_NOT_FOUND"}`},
			{does: "verify a passport", as: them, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `"}`, status: 400, gets: `{"valid":false,"error":"…","code":"SIGNATURE_INVALID"}`},
			{does: "a passport that opens a tool", as: them, call: "POST /v1/hooks/claude-code?agent=secret-agent&require=passport", body: `{"hook_event_name":"Stop"}`, status: 200, gets: `{}`},
			{does: "spans of an agent", as: them, call: "POST /v1/otlp/v1/traces?agent=secret-agent", body: `{"resourceSpans":[]}`, status: 200, gets: `{}`},
			{does: "log records of an agent", as: them, call: "POST /v1/otlp/v1/logs?agent=secret-agent", body: `{"resourceLogs":[]}`, status: 200, gets: `{}`},
			{does: "rotate a passport", as: them, call: rotate, headers: []string{passportName + passport}, status: 403, gets: `{"error":"Passport was not issued by the authenticated company"}`},
		}
		table(t, rows)
		wholeList(t, rows)
		them.checkLog(t, "control") // all records are of globex
		if own := string(them.do(t, "GET /v1/chain?log=control", "").status(200).raw); strings.Contains(own, "acme") || !strings.Contains(own, `"subject":"agent:bot"`) {
			t.Errorf("the control log of globex: %s", own)
		}
	}
	// None of these requests changed anything of acme's.
	acme.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
	acme.with(second).do(t, "GET /v1/agents/bot", "").gets(200, `{"agentId":"bot","spiffeId":"<anything>","companyId":"acme","registeredAt":"<time>","metadata":{"of":"acme"}}`)
	if n := len(acme.checkChain(t)); n != 3 {
		t.Errorf("acme has %d records, want 3", n)
	}
}

// wholeList demands that the list has every endpoint with a credential, except those that only
// create something of the caller's own.
func wholeList(t *testing.T, rows []row) {
	t.Helper()
	seen := map[string]bool{"rotateKeys": true, "registerAgent": true, "createKey": true, "createOAuthClient": true, "listOAuthClients": true}
	for _, row := range rows {
		seen[operation(t, row.as, row.call)] = true
	}
	for _, call := range keyed {
		if id := operation(t, rows[0].as, call); !seen[id] {
			t.Errorf("%s (%s) is not among them", call, id)
		}
	}
}

// operation returns the document's name for a call.
func operation(t *testing.T, c caller, call string) string {
	t.Helper()
	router, err := document()
	must(t, err)
	route, _, err := router.FindRoute(c.request(t, call, ""))
	must(t, err)
	return route.Operation.OperationID
}
