package server_test

import "testing"

// Disabling an agent ends every delegation that contains it, as the subject, in the middle or as
// the last actor. Other delegations go on, and so does the whole chain once the agent is enabled. A
// retry with an idempotency key that has a record is answered all the same.
func TestDisabledAgentEndsDelegations(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	bot, first, second := acme.agent(t, "bot"), acme.agent(t, "first"), acme.agent(t, "second")
	subject, _ := acme.exchange(t, bot, first)   // bot → first
	acted, _ := acme.exchange(t, first, bot)     // first → bot
	middle, _ := acme.exchange(t, acted, second) // first → bot → second
	others, _ := acme.exchange(t, first, second)
	delegated := acme.do(t, delegate, `{"agentId":"bot","actingOn":"globex","scope":"x"}`).status(201).str("token")
	passedOn, _ := acme.exchange(t, delegated, second) // globex → bot → second

	const attest, batch = "POST /v1/attest", "POST /v1/attest/batch"
	record := func(delegation string) string {
		return `{"agentId":"second","actionType":"a","payload":1,"delegation":"` + delegation + `"}`
	}
	acme.do(t, attest, record(middle), "Idempotency-Key: before").status(201)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)

	var rows []row
	for _, test := range []struct{ name, token string }{
		{"its SVID", bot}, {"a chain that begins with it", subject}, {"a chain that ends with it", acted},
		{"a chain with it in the middle", middle}, {"a delegation from another company", delegated}, {"one that it passed on", passedOn},
	} {
		rows = append(rows,
			row{does: "an exchange with the subject of " + test.name, as: acme, call: exchange, body: exchangeBody(t, test.token, first, nil), status: 403, gets: agentDisabled},
			row{does: "a record under " + test.name, as: acme, call: attest, body: record(test.token), status: 403, gets: agentDisabled},
			row{does: "a batch under " + test.name, as: acme, call: batch, body: `{"records":[` + record(others) + `,` + record(test.token) + `]}`, status: 403,
				gets: `{"error":"Agent is disabled: bot","code":"AGENT_DISABLED","pointer":"/records/1/delegation"}`})
	}
	table(t, append(rows,
		row{does: "an exchange with it as the actor", as: acme, call: exchange, body: exchangeBody(t, others, bot, nil), status: 403, gets: agentDisabled},
		row{does: "an exchange of others", as: acme, call: exchange, body: exchangeBody(t, others, first, nil), status: 200, gets: `"<anything>"`},
		row{does: "a record under a delegation of others", as: acme, call: attest, body: record(others), status: 201, gets: `"<anything>"`},
		row{does: "the retry of a record of before", as: acme, call: attest, body: record(middle), headers: []string{"Idempotency-Key: before"}, status: 201, gets: `"<anything>"`},
	))
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	acme.do(t, attest, record(middle)).status(201)
	acme.do(t, exchange, exchangeBody(t, subject, second, nil)).status(200)
}
