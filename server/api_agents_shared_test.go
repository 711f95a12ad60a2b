package server_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

// on returns the same agent at another service.
func (a signer) on(s *service) signer { a.caller = a.caller.on(s); return a }

// A revocation counts on the next request on every server: for the statements of the key, for its
// tokens, and for its sign-in, whichever server had just accepted them.
func TestKeyRevocationVisibleOnAllServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	first, second := startTwo(t)
	acme := first.company(t, "acme")
	for round, there := range []*service{second, first} {
		here := map[*service]*service{first: second, second: first}[there]
		name := fmt.Sprintf("bot-%d", round)
		a := acme.on(here).signer(t, name, jose.ES256)
		in := a.signsIn(t)
		bound := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", a.proof(t, a.key, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
		late := a.states(t, a.claims(t, "note", "9")).Compact
		// both servers have the key and the tokens in their caches
		for i, s := range []*service{here, there} {
			payload := fmt.Sprint(i)
			a.on(s).attests(t, payload, a.states(t, a.claims(t, "note", payload)).Compact).status(201)
			in.on(s).do(t, "GET "+a.keys(), "").status(200)
			at := a.on(s)
			at.with("").do(t, "GET "+a.keys(), "", "Authorization: DPoP "+bound, at.proof(t, a.key, "GET", a.keys(), bound)).status(200)
		}
		assertions := map[*service]string{here: a.on(here).assertion(t), there: a.on(there).assertion(t)}

		acme.on(here).do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
		for _, s := range []*service{there, here} {
			a.on(s).attests(t, "9", late).gets(403, `{"error":"…","code":"STATEMENT_KEY_UNKNOWN"}`)
			in.on(s).do(t, "GET "+a.keys(), "").status(401)
			in.on(s).attests(t, "1", "").status(401)
			at := a.on(s)
			at.with("").do(t, "GET "+a.keys(), "", "Authorization: DPoP "+bound, at.proof(t, a.key, "GET", a.keys(), bound)).status(401)
			at.with("").do(t, tokenCall, signInBody(assertions[s]), "Content-Type: application/json").gets(401, `{"error":"invalid_client","error_description":"…"}`)
			a.on(s).enrol(t, a.key).gets(409, `{"error":"…","code":"KEY_EXISTS"}`)
		}
	}
}

// The policy of an agent, and of a company, counts on the next request on every server.
func TestPolicyVisibleOnAllServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	first, second := startTwo(t)
	acme := first.company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	const required = `{"error":"…","code":"AGENT_KEY_REQUIRED"}`
	for _, path := range []string{"/v1/agents/bot/policy", "/v1/company/policy"} {
		for _, s := range []*service{first, second} {
			a.on(s).attests(t, "1", "").status(201)
		}
		acme.do(t, "PUT "+path, `{"attest":"key"}`).status(200)
		for _, s := range []*service{second, first} {
			a.on(s).attests(t, "1", "").gets(403, required)
		}
		acme.on(second).do(t, "PUT "+path, `{"attest":"any"}`).status(200)
	}
	a.attests(t, "1", "").status(201)

	acme.agent(t, "other")
	svid := func(agent string) string {
		return acme.do(t, "GET /v1/agents/"+agent+"/svid", "").status(200).str("svid")
	}
	subject, acts := svid("bot"), actor(svid("other"))
	exchanged := append([]string{"audience", "vault"}, acts...)
	for _, s := range []*service{first, second} {
		acme.on(s).exchanges(t, subject, exchanged...).gets(400, `{"error":"invalid_target","error_description":"…"}`)
	}
	acme.namesForExchanges(t, "vault")
	for _, s := range []*service{second, first} {
		acme.on(s).exchanges(t, subject, exchanged...).status(200)
	}
	acme.on(second).namesForExchanges(t)
	for _, s := range []*service{second, first} {
		acme.on(s).exchanges(t, subject, exchanged...).gets(400, `{"error":"invalid_target","error_description":"…"}`)
	}
}

// What counts once counts once on all servers together: a DPoP proof, also one with which a key was
// enrolled at another company, a client assertion and a statement.
func TestReplayOnAnotherServer(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	// behind a proxy, both are one URL to an agent
	const base = "http://attestd.example"
	first, second := startTwo(t, func(c *server.Config) { c.BaseURL = base })
	acme := first.company(t, "acme")
	acme.agent(t, "bot")
	a := signer{acme, "bot", newKey(t, jose.EdDSA)}
	public := a.at(base)
	acme.do(t, "POST "+a.keys(), enrolBody(a.key), public.proof(t, a.key, "POST", a.keys(), "")).status(201)
	ask := func(s *service, call, body string, headers ...string) *reply {
		return a.on(s).with("").do(t, call, body, append(headers, "Content-Type: application/json")...)
	}
	assertions := []string{public.assertion(t), public.assertion(t)}
	proof := public.proof(t, a.key, "POST", "/v1/oauth/token", "")
	token := ask(first, tokenCall, signInBody(assertions[0]), proof).status(200).str("access_token")
	ask(second, tokenCall, signInBody(assertions[0])).gets(401, `{"error":"invalid_client","error_description":"…used before"}`)
	ask(second, tokenCall, signInBody(assertions[1]), proof).gets(400, `{"error":"invalid_dpop_proof","error_description":"…used before…"}`)

	proof = public.proof(t, a.key, "GET", a.keys(), token)
	ask(first, "GET "+a.keys(), "", "Authorization: DPoP "+token, proof).status(200)
	for _, s := range []*service{second, first} {
		ask(s, "GET "+a.keys(), "", "Authorization: DPoP "+token, proof).gets(401, `{"error":"Unauthorized: …","code":"INVALID_DPOP_PROOF"}`)
	}
	ask(second, "GET "+a.keys(), "", "Authorization: DPoP "+token, public.proof(t, a.key, "GET", a.keys(), token)).status(200)

	zoo, key := second.company(t, "zoo"), newKey(t, jose.ES256)
	zoo.agent(t, "bot")
	proof = public.proof(t, key, "POST", a.keys(), "")
	a.do(t, "POST "+a.keys(), enrolBody(key), proof).status(201)
	zoo.do(t, "POST "+a.keys(), enrolBody(key), proof).gets(400, `{"error":"…used before…","code":"INVALID_DPOP_PROOF"}`)

	// of many at once over both, one wins
	proof = public.proof(t, a.key, "GET", a.keys(), token)
	codes := make([]int, 20)
	var all errgroup.Group
	for i := range codes {
		all.Go(func() error {
			codes[i] = ask([]*service{first, second}[i%2], "GET "+a.keys(), "", "Authorization: DPoP "+token, proof).code
			return nil
		})
	}
	must.OK(t, all.Wait())
	if accepted := strings.Count(fmt.Sprint(codes), "200"); accepted != 1 || strings.Count(fmt.Sprint(codes), "401") != len(codes)-1 {
		t.Errorf("one proof is answered %v", codes)
	}

	statement := a.states(t, a.claims(t, "note", "1")).Compact
	record := a.attests(t, "1", statement).status(201).at("index")
	again := a.on(second).attests(t, "1", statement).status(201)
	if again.at("index") != record || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a statement is recorded at %v, and again at %v", record, again.at("index"))
	}
}

// Of many machines that enrol with one token at once on two servers, one wins.
func TestEnrolmentTokenIsSpentOnceOnTwoServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	first, second := startTwo(t)
	acme := first.company(t, "acme")
	acme.agent(t, "bot")
	token := acme.do(t, "POST /v1/agents/bot/enrolments", "").status(201).str("token")
	codes := make([]int, 40)
	var all errgroup.Group
	for i := range codes {
		all.Go(func() error {
			machine := signer{acme.with(token).on([]*service{first, second}[i%2]), "bot", newKey(t, jose.EdDSA)}
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
	for _, s := range []*service{first, second} {
		if keys := len(acme.on(s).do(t, "GET /v1/agents/bot/keys", "").status(200).at("keys").([]any)); won != 1 || keys != 1 {
			t.Errorf("%d have enrolled a key, and there are %d", won, keys)
		}
	}
}

// A revoked access token counts on no server when the answer is there, be it opaque or a JWT, and
// whichever server had just accepted or introspected it. A nonce of one server counts on the other.
func TestTokenRevocationVisibleOnAllServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	testenv.Concurrent(t)
	t.Parallel()
	first, second := startTwo(t, demandsNonces)
	acme := first.company(t, "acme")
	c := acme.oauthClient(t, "reader")
	for _, there := range []*service{second, first} {
		here := map[*service]*service{first: second, second: first}[there]
		opaque, jwt := c.token(t), c.token(t, "resource", "https://mcp.example")
		for _, s := range []*service{here, there} {
			acme.on(s).with(opaque).do(t, "GET /v1/agents", "").status(200)
			acme.on(s).about(t, "acme", "introspect", opaque).contains(`"active":true`)
			acme.on(s).about(t, "acme", "introspect", jwt).contains(`"active":true`)
		}
		for _, token := range []string{opaque, jwt} {
			acme.on(here).about(t, "acme", "revoke", token).gets(200, `{}`)
			acme.on(there).about(t, "acme", "introspect", token).gets(200, inactive)
			acme.on(here).about(t, "acme", "introspect", token).gets(200, inactive)
		}
		acme.on(there).with(opaque).do(t, "GET /v1/agents", "").status(401)
	}
	key, nonce := newKey(t, jose.ES256), first.nonce(t)
	withNonce := func(d *proofDraft) { d.claims["nonce"] = nonce }
	for _, s := range []*service{first, second} {
		at := c
		at.caller = c.on(s)
		at.asks(t, nil, "DPoP: "+drafts(key, "POST", s.url+"/v1/oauth/token", "")(withNonce).sign(t)).status(200)
	}
}

// A token for the company's issuer ends on all servers with the credential with which it was asked
// for.
func TestTokensEndOnAllServers(t *testing.T) {
	testenv.Concurrent(t)
	testenv.Needs(t, testenv.NotQuick, testenv.Plain)
	t.Parallel()
	const base = "http://attestd.example"
	first, second := startTwo(t, func(c *server.Config) { c.BaseURL = base }, privateFederation)
	acme := first.company(t, "acme")
	acme.agent(t, "bot")
	own := base + "/o/" + acme.id
	ci := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("ci", ci.URL, own, `[{"match":{"sub":"bot"},"agentId":"bot"}]`)).status(201)
	workload := acme.federates(t, ci.token(t, own, claims{"sub": "bot"})).status(200).str("access_token")
	key, client := acme.create(t, "admin", ""), acme.oauthClient(t, "admin")
	for ends, by := range map[string]caller{
		"DELETE /v1/federation/ci":                    acme.with(workload),
		"DELETE /v1/keys/" + key.credential:           key,
		"DELETE /v1/oauth/clients/" + client.clientID: acme.with(client.token(t)),
	} {
		token := by.do(t, "POST /v1/agents/bot/token", `{"audience":"`+own+`"}`).status(201).str("token")
		for _, s := range []*service{first, second} {
			acme.on(s).about(t, "acme", "introspect", token).has(`{"active":true}`)
		}
		acme.on(second).do(t, ends, "").status(200)
		for _, s := range []*service{first, second} {
			acme.on(s).about(t, "acme", "introspect", token).gets(200, inactive)
		}
	}
}
