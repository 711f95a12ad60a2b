package server_test

import "testing"

// A token says whose key it is good for, to whoever holds it, until it is spent.
func TestEnrolmentTokenNamesItsAgent(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := signer{acme, "bot", newKey(t, "EdDSA")}
	acme.agent(t, "bot")
	token := acme.do(t, "POST /v1/agents/bot/enrolments", `{}`).status(201).str("token")
	holder := caller{acme.service, acme.id, token}
	for range 2 {
		holder.do(t, "GET /v1/enrolment", "").status(200).has(`{"agentId":"bot","companyId":"acme","spiffeId":"spiffe://attestd.local/company/acme/agent/bot"}`)
	}
	holder.do(t, "GET /v1/enrolment?agent=bot", "").gets(400, `{"error":"…"}`)
	acme.do(t, "GET /v1/enrolment", "").gets(403, `{"error":"Forbidden: …","code":"FORBIDDEN_ROLE"}`)
	signer{holder, "bot", a.key}.enrol(t, a.key).status(201)
	holder.do(t, "GET /v1/enrolment", "").gets(401, `{"error":"Unauthorized"}`)
}
