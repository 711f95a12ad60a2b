package server_test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/internal/must"
	"attestd/internal/testenv"
)

// A key is enrolled by who proves possession of it, shown, and revoked for good.
func TestAgentKeyLifecycle(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		agent := "bot-" + algorithm
		acme.agent(t, agent)
		a := signer{acme, agent, newKey(t, algorithm)}
		made := a.enrol(t, a.key, `"label":"laptop"`, `"expiresAt":"2036-01-01T00:00:00.000Z"`).status(201)
		made.has(`{"thumbprint":"` + a.thumbprint() + `","agentId":"` + agent + `","alg":"` + algorithm + `","label":"laptop","expiresAt":"2036-01-01T00:00:00.000Z","revokedAt":null}`)
		acme.do(t, "GET "+a.keys(), "").has(`{"keys":[{"thumbprint":"` + a.thumbprint() + `","revokedAt":null}]}`)
		revoked := acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200).str("revokedAt")
		if again := acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200).str("revokedAt"); again != revoked {
			t.Errorf("revoked at %s, and then at %s", revoked, again)
		}
		acme.do(t, "GET "+a.keys(), "").has(`{"keys":[{"revokedAt":"` + revoked + `"}]}`)
		a.enrol(t, a.key).gets(409, `{"error":"…","code":"KEY_EXISTS"}`)
	}
	acme.do(t, "DELETE /v1/agents/bot-ES256/keys/nobody", "").gets(404, `{"error":"Key not found: …"}`)
	acme.do(t, "GET /v1/agents/ghost/keys", "").gets(404, `{"error":"Agent not found: ghost"}`)
}

// Every row of the contract's table of refusals of an enrolment.
func TestAgentKeyEnrolmentIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	a := acme.signer(t, "bot", jose.EdDSA)
	other := acme.signer(t, "other", jose.EdDSA)
	fresh := newKey(t, jose.ES256)
	ask := func(body string, headers ...string) *reply { return acme.do(t, "POST "+a.keys(), body, headers...) }
	const noProof = `{"error":"…","code":"INVALID_DPOP_PROOF"}`
	ask(enrolBody(fresh)).gets(400, noProof)
	ask(enrolBody(fresh), a.proof(t, a.key, "POST", a.keys(), "")).gets(400, noProof)
	ask(enrolBody(fresh), a.proof(t, fresh, "GET", a.keys(), "")).gets(400, noProof)
	ask(enrolBody(fresh), a.proof(t, fresh, "POST", other.keys(), "")).gets(400, noProof)
	ask(enrolBody(fresh), "DPoP: e30.e30.AA").gets(400, noProof)
	ask(`{"jwk":`+string(fresh.JWK())+`}`, a.proof(t, fresh, "POST", a.keys(), "")).gets(400, `{"error":"Invalid field: jwk …"}`)
	ask(`{}`).gets(400, `{"error":"Missing or invalid field: jwk is required"}`)
	ask(enrolBody(fresh, `"expiresAt":"2020-01-01T00:00:00.000Z"`), a.proof(t, fresh, "POST", a.keys(), "")).gets(400, `{"error":"Invalid field: expiresAt must be in the future"}`)
	ask(enrolBody(fresh, `"labels":"x"`), a.proof(t, fresh, "POST", a.keys(), "")).gets(400, `{"error":"Unknown field \"labels\"…"}`)
	other.enrol(t, a.key).gets(409, `{"error":"…","code":"KEY_EXISTS"}`)
	signer{acme, "ghost", fresh}.enrol(t, fresh).gets(404, `{"error":"Agent not found: ghost"}`)
	acme.do(t, "POST /v1/agents/other/disable", "").status(200)
	other.enrol(t, fresh).gets(403, `{"error":"…","code":"AGENT_DISABLED"}`)
	// another company may have a key of the same thumbprint: it says nothing of the first
	zoo.agent(t, "bot")
	signer{zoo, "bot", a.key}.enrol(t, a.key).status(201)
	for range 15 {
		a.enrol(t, newKey(t, jose.EdDSA)).status(201)
	}
	a.enrol(t, fresh).gets(409, `{"error":"…","code":"TOO_MANY"}`)
	acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
	a.enrol(t, fresh).status(201)
}

// An enrolment token enrols one key of its agent and grants nothing else.
func TestEnrolmentToken(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a, other := acme.signer(t, "bot", jose.EdDSA), acme.signer(t, "other", jose.EdDSA)
	token := acme.do(t, "POST /v1/agents/bot/enrolments", `{"label":"laptop","expiresIn":60}`).status(201).str("token")
	machine := signer{acme.with(token), "bot", newKey(t, jose.EdDSA)}
	machine.do(t, "GET /v1/agents", "").gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	machine.do(t, "GET "+a.keys(), "").gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	machine.do(t, "POST /v1/attest", attestBody("bot", "1", "")).gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	signer{machine.caller, "other", machine.key}.enrol(t, machine.key).gets(403, `{"error":"…","code":"FORBIDDEN_AGENT"}`)
	machine.do(t, "POST "+a.keys(), enrolBody(machine.key)).gets(400, `{"error":"…","code":"INVALID_DPOP_PROOF"}`)
	machine.enrol(t, a.key).gets(409, `{"error":"…","code":"KEY_EXISTS"}`)
	machine.enrol(t, machine.key).status(201)
	machine.enrol(t, newKey(t, jose.EdDSA)).gets(401, `{"error":"Unauthorized"}`)
	acme.do(t, "POST /v1/agents/ghost/enrolments", "").gets(404, `{"error":"Agent not found: ghost"}`)
	acme.do(t, "POST /v1/agents/bot/enrolments", `{"expiresIn":86401}`).status(400)
	_ = other
}

// Of many machines that enrol with one token at once, one wins.
func TestEnrolmentTokenIsSpentOnce(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	token := acme.do(t, "POST /v1/agents/bot/enrolments", "").status(201).str("token")
	codes := make([]int, 40)
	var all errgroup.Group
	for i := range codes {
		all.Go(func() error {
			machine := signer{acme.with(token), "bot", newKey(t, jose.EdDSA)}
			codes[i] = machine.enrol(t, machine.key).code
			return nil
		})
	}
	must.OK(t, all.Wait())
	won := 0
	for _, code := range codes {
		switch code {
		case 201:
			won++
		case 401, 403:
		default:
			t.Errorf("an enrolment is answered %d", code)
		}
	}
	if keys := len(acme.do(t, "GET /v1/agents/bot/keys", "").status(200).at("keys").([]any)); won != 1 || keys != 1 {
		t.Errorf("%d have enrolled a key, and there are %d", won, keys)
	}
}

// An agent enrols its next key with the one that it has: the present key signs for the next one,
// and the control record has that signature.
func TestAgentEndorsesItsNextKey(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a, other := acme.signer(t, "bot", jose.ES256).signsIn(t), acme.signer(t, "other", jose.EdDSA)
	next := newKey(t, jose.EdDSA)
	a.enrol(t, next).gets(400, `{"error":"…","code":"ENDORSEMENT_REQUIRED"}`)
	a.enrol(t, next, `"endorsement":"`+a.endorses(t, newKey(t, jose.EdDSA))+`"`).gets(400, `{"error":"…","code":"ENDORSEMENT_INVALID"}`)
	a.enrol(t, next, `"endorsement":"`+other.endorses(t, next)+`"`).gets(400, `{"error":"…","code":"ENDORSEMENT_INVALID"}`)
	// before the key that endorses was enrolled; long ago; 1970
	for _, ago := range []int64{4 * 60, 6 * 60, time.Now().Unix()} {
		e, err := statement.MakeEndorsement(t.Context(), a.key, statement.EndorsementClaims{
			Issuer: a.spiffe(), Audience: a.companySPIFFE(), IssuedAt: time.Now().Unix() - ago, Next: next.Key().Thumbprint,
		})
		must.OK(t, err)
		a.enrol(t, next, `"endorsement":"`+e.Compact+`"`).gets(400, `{"error":"…","code":"ENDORSEMENT_INVALID"}`)
	}
	endorsement := a.endorses(t, next)
	a.enrol(t, next, `"endorsement":"`+endorsement+`"`).status(201)
	acme.do(t, "GET /v1/chain?log=control&limit=100", "").contains(`"endorsement":"` + endorsement + `"`).contains(`"by":"agent-key:` + a.thumbprint() + `"`)
	a.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
	a.do(t, "GET "+a.keys(), "").status(401)
	signer{acme, "bot", next}.signsIn(t).do(t, "GET "+a.keys(), "").status(200)
}

// With the policy key only what a key of the agent has signed is recorded in its name.
func TestPolicyDemandsStatements(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a, other := acme.signer(t, "bot", jose.EdDSA), acme.signer(t, "other", jose.ES256)
	a.attests(t, "1", "").status(201)
	other.attests(t, "1", other.states(t, other.claims(t, "note", "1")).Compact).status(201)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"attest":"key","dryRun":true}`).has(`{"agentId":"bot","attest":"key","dryRun":{"records":2,"refused":1,"complete":true,"agents":[{"agentId":"bot","refused":1}]}}`)
	acme.do(t, "PUT /v1/company/policy", `{"attest":"key","dryRun":true}`).has(`{"dryRun":{"refused":1}}`)
	a.attests(t, "2", "").status(201)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"attest":"key"}`).gets(200, `{"agentId":"bot","attest":"key"}`)
	const required = `{"error":"…","code":"AGENT_KEY_REQUIRED"}`
	a.attests(t, "3", "").gets(403, required)
	a.attests(t, "3", a.states(t, a.claims(t, "note", "3")).Compact).status(201)
	acme.do(t, "POST /v1/attest/batch", `{"records":[`+attestBody("other", "4", "")+`,`+attestBody("bot", "4", "")+`]}`).gets(403, `{"error":"…","code":"AGENT_KEY_REQUIRED","pointer":"/records/1/statement"}`)
	acme.do(t, "POST /v1/hooks/claude-code?agent=bot", postToolUse).gets(403, required)
	other.attests(t, "5", "").status(201)
	acme.do(t, "PUT /v1/company/policy", `{"attest":"key"}`).gets(200, `{"attest":"key","exchangeAudiences":[],"decisions":"denied","changes":"any"}`)
	other.attests(t, "6", "").gets(403, required)
	acme.do(t, "PUT /v1/agents/bot/policy", `{"attest":"any"}`).status(200)
	a.attests(t, "7", "").gets(403, required) // the stricter of the two holds
	acme.do(t, "PUT /v1/company/policy", `{"attest":"any"}`).status(200)
	a.attests(t, "8", "").status(201)
	acme.do(t, "PUT /v1/agents/ghost/policy", `{"attest":"key"}`).status(404)
	acme.do(t, "PUT /v1/company/policy", `{"attest":"some"}`).gets(400, `{"error":"Invalid field: attest must be any or key"}`)
	acme.do(t, "PUT /v1/company/policy", `{"attest":"key","dryrun":true}`).status(400)
	var changed int
	for _, r := range acme.do(t, "GET /v1/chain?log=control&limit=1000", "").status(200).at("records").([]any) {
		if action := fmt.Sprint(r.(map[string]any)["payload"].(map[string]any)["actionType"]); action == "agent.policy-changed" || action == "company.policy-changed" {
			changed++
		}
	}
	if changed != 4 {
		t.Errorf("%d control records of changed policies", changed)
	}
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

const postToolUse = `{"hook_event_name":"PostToolUse","session_id":"s","transcript_path":"/t","cwd":"/","tool_name":"Bash","tool_input":{"command":"ls"},"tool_response":{"stdout":""},"tool_use_id":"toolu_1"}`
