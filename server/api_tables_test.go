package server_test

import (
	"testing"

	"attestd/crypto/cred"
	"attestd/internal/must"
	"attestd/store/storetest"
)

const tablesChanged = `{"error":"…","code":"TABLES_CHANGED","requestId":"…"}`

// If a table of a company differs from its control log, the company's changes and tokens are
// refused; records, reads and proofs go on, and other companies are not affected.
func TestTablesChanged(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, globex := s.company(t, "acme"), s.company(t, "globex")
	bot := acme.agent(t, "bot")
	acme.agent(t, "other")
	passport := acme.passport(t, "bot", "")
	acme.do(t, "POST /v1/agents/other/disable", "").status(200)
	client := acme.do(t, "POST /v1/oauth/clients", "").status(201)
	must.OK(t, storetest.Stranger(t, s.path, `UPDATE agent SET disabled_at = NULL WHERE agent_id = 'other'`).Close())

	acme.do(t, "GET /v1/verify?log=control", "").gets(200, `{"valid":false,"failedAtIndex":5,"error":"…"}`)
	token := `{"grant_type":"client_credentials","client_id":"` + client.str("clientId") + `","client_secret":"` + client.str("clientSecret") + `"}`
	table(t, []row{
		{does: "an SVID", as: acme, call: "GET /v1/agents/bot/svid", status: 503, gets: tablesChanged},
		{does: "the company's SVID", as: acme, call: "POST /v1/companies/svid", status: 503, gets: tablesChanged},
		{does: "a registration", as: acme, call: "POST /v1/agents/register", body: `{"agentId":"new"}`, status: 503, gets: tablesChanged},
		{does: "a passport", as: acme, call: "POST /v1/agents/bot/passport", status: 503, gets: tablesChanged},
		{does: "a delegation", as: acme, call: "POST /v1/token-exchange", body: `{"agentId":"bot","actingOn":"acme","scope":"x"}`, status: 503, gets: tablesChanged},
		{does: "an exchange", as: acme, call: "POST /v1/token/exchange", body: exchangeBody(t, bot, bot, nil), status: 503, gets: tablesChanged},
		{does: "an access token", as: s.anyone(), call: "POST /v1/oauth/token", body: token, headers: []string{"Content-Type: application/json"}, status: 503, gets: tablesChanged},
		{does: "a key", as: acme, call: "POST /v1/keys", status: 503, gets: tablesChanged},
		{does: "a record in the agent's name", as: acme, call: "POST /v1/attest", body: `{"agentId":"other","actionType":"a","payload":1}`, status: 503, gets: tablesChanged},
		{does: "a record in another's name", as: acme, call: "POST /v1/attest", body: `{"agentId":"bot","actionType":"a","payload":1}`, status: 201, gets: `"<anything>"`},
		{does: "a passport of another", as: acme, call: "POST /v1/passport/verify", body: `{"passport":"` + passport + `"}`, status: 200, gets: `"<anything>"`},
		{does: "the records", as: acme, call: "GET /v1/chain?log=control", status: 200, gets: `"<anything>"`},
		{does: "a proof", as: acme, call: "GET /v1/proof/0", status: 200, gets: `"<anything>"`},
		{does: "another company's", as: globex, call: "POST /v1/agents/register", body: `{"agentId":"new"}`, status: 201, gets: `"<anything>"`},
		{does: "whether it is ready", as: s.anyone(), call: "GET /readyz", status: 200, gets: `{"status":"degraded","reasons":["TABLES_CHANGED"],"headFile":"written","tablesChanged":1}`},
		{does: "a rotation after a theft", as: acme, call: "POST /v1/companies/rotate-keys", body: `{"compromised":true}`, status: 200, gets: `"<anything>"`},
	})
}

// The tables are compared after each start, before any request uses a changed row.
func TestTablesAreComparedAfterTheStart(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	s.stop()
	must.OK(t, storetest.Stranger(t, s.path, `UPDATE agent SET registered_at = '2020-01-01T00:00:00.000Z' WHERE agent_id = 'bot'`).Close())
	again := startOn(t, s.path, cred.Domain{})
	eventually(t, "the log says so", func() bool { return again.log.says("see attestd help accept-tables") == 1 })
	acme.on(again).do(t, "POST /v1/agents/register", `{"agentId":"new"}`).gets(503, tablesChanged)
}
