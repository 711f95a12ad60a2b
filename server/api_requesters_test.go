package server_test

import (
	"strings"
	"testing"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
)

// A JWT for the company's issuer is known to introspection, can be revoked, and is inactive when
// what it was asked for with is gone, whichever kind of credential that is: so are the delegations
// that were exchanged with it. A federation of the same name that is made later brings none back.
func TestTokensEndWithWhatAskedForThem(t *testing.T) {
	t.Parallel()
	s := startTLS(t, privateFederation)
	acme := s.company(t, "acme")
	planner := acme.agent(t, "planner")
	bot := acme.signer(t, "bot", jose.ES256)
	svid := acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid")
	ci := newIssuer(t)
	federation := federationBody("ci", ci.URL, acme.issuer(), `[{"match":{"sub":"bot"},"agentId":"bot"}]`)
	acme.do(t, "POST /v1/federation", federation).status(201)
	workload := func() caller {
		return acme.with(acme.federates(t, ci.token(t, acme.issuer(), claims{"sub": "bot"})).status(200).str("access_token"))
	}
	key := acme.create(t, "admin", "")
	client := acme.oauthClient(t, "admin")
	const gone = `{"error":"Invalid delegation: …"}`
	for what, test := range map[string]struct {
		by   caller
		ends func()
		back func() // what may follow, and changes nothing for the tokens; nil for nothing
	}{
		"an API key that is deleted": {key, func() { acme.do(t, "DELETE /v1/keys/"+key.credential, "").status(200) }, nil},
		"an OAuth client that is deleted": {acme.with(client.token(t)), func() {
			acme.do(t, "DELETE /v1/oauth/clients/"+client.clientID, "").status(200)
		}, nil},
		"a federation that is deleted": {workload(), func() { acme.do(t, "DELETE /v1/federation/ci", "").status(200) }, func() {
			acme.do(t, "POST /v1/federation", federation).status(201)
			workload()
		}},
		"a key of the agent that is revoked": {bot.signsIn(t).caller, func() { acme.do(t, "DELETE "+bot.keys()+"/"+bot.thumbprint(), "").status(200) }, nil},
		"a certificate of an agent that is disabled": {s.certified(t, "acme", true, s.clientCA.ClientPair(t, botURI)), func() {
			acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
		}, nil},
	} {
		t.Run(what, func(t *testing.T) {
			acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
			token := func(audience string) string {
				return test.by.do(t, "POST /v1/agents/bot/token", `{"audience":`+audience+`}`).status(201).str("token")
			}
			var actorToken []string
			if test.by.credential == key.credential || strings.Contains(what, "OAuth") {
				actorToken = actor(svid)
			}
			delegation := test.by.exchanges(t, planner, actorToken...).status(200).str("access_token")
			own, several := token(`"`+acme.issuer()+`"`), token(`["https://x.example","`+acme.issuer()+`"]`)
			forAudience := test.by.do(t, "GET /v1/agents/bot/svid?audience="+acme.issuer(), "").status(200).str("svid")
			tokens := map[string]string{"a token": own, "one for others beside": several, "an SVID": forAudience, "a delegation": delegation}
			for kind, token := range tokens {
				answer := acme.about(t, "acme", "introspect", token).has(`{"active":true,"agent_id":"bot","org":"acme"}`)
				if who := answer.str("sub"); kind != "a delegation" && (who != bot.spiffe() || answer.str("token_type") != "N_A") {
					t.Errorf("%s: %s", kind, answer.raw)
				}
			}
			// one for others alone is not known
			acme.about(t, "acme", "introspect", token(`"https://x.example"`)).gets(200, inactive)
			acme.exchanges(t, own, actor(planner)...).status(200)
			acme.exchanges(t, several, actor(planner)...).gets(400, `{"error":"invalid_request","error_description":"Invalid subject_token: …"}`)

			revoked := token(`"` + acme.issuer() + `"`)
			acme.about(t, "acme", "revoke", revoked).gets(200, `{}`)
			acme.about(t, "acme", "introspect", revoked).gets(200, inactive)
			acme.exchanges(t, revoked, actor(planner)...).status(400)
			acme.about(t, "acme", "introspect", own).has(`{"active":true}`) // its others go on

			acme.do(t, "POST /v1/attest", actedBy("bot", delegation)).status(201)
			for _, then := range []func(){test.ends, test.back} {
				if then == nil {
					continue
				}
				then()
				for kind, token := range tokens {
					if answer := acme.about(t, "acme", "introspect", token); answer.status(200).at("active") != false {
						t.Errorf("%s is still active: %s", kind, answer.raw)
					}
				}
				acme.exchanges(t, own, actor(planner)...).status(400)
				if answer := acme.do(t, "POST /v1/attest", actedBy("bot", delegation)); answer.code/100 == 2 {
					t.Errorf("the delegation is still good: %s", answer.raw)
				} else if !strings.Contains(what, "disabled") {
					answer.gets(400, gone)
				}
			}
		})
	}
	// an agent ends its own, and no other's
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	again := acme.signer(t, "other", jose.EdDSA).signsIn(t)
	mine := again.do(t, "POST /v1/agents/other/token", `{"audience":"`+acme.issuer()+`"}`).status(201).str("token")
	another := acme.do(t, "POST /v1/agents/bot/token", `{"audience":"`+acme.issuer()+`"}`).status(201).str("token")
	again.about(t, "acme", "revoke", another).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
	again.about(t, "acme", "revoke", mine).gets(200, `{}`)
	acme.about(t, "acme", "introspect", mine).gets(200, inactive)
	acme.about(t, "acme", "introspect", another).has(`{"active":true}`)
	zoo := s.company(t, "zoo")
	zoo.about(t, "zoo", "introspect", another).gets(200, inactive)
}

// A server that received a token for itself cannot exchange it for a token for another server, nor
// use it as a delegation here. Only the agent that its may_act names can.
func TestTokenForAResourceIsNoSubject(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const one, two = "https://one.example", "https://two.example"
	acme.namesForExchanges(t, one, two)
	planner, server := acme.signer(t, "planner", jose.ES256), acme.signer(t, "server", jose.ES256).signsIn(t)
	svid := acme.do(t, "GET /v1/agents/planner/svid", "").status(200).str("svid")
	id := func(name string) string { return acme.companySPIFFE() + "/agent/" + name }
	signIn := func(more ...string) string {
		text := planner.assertion(t)
		return planner.anyone().do(t, tokenCall, oauthForm(append([]string{"grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text}, more...)...), formType).
			status(200).str("access_token")
	}
	self := planner.signsIn(t)
	const refused = `{"error":"invalid_request","error_description":"subject_token is for another audience…"}`
	for name, token := range map[string]string{
		"of its sign-in":        signIn("resource", one),
		"of its sign-in, two":   signIn("resource", one, "resource", two),
		"of an exchange":        self.exchanges(t, svid, "resource", one).status(200).str("access_token"),
		"with another may_act":  self.exchanges(t, svid, "resource", one, "may_act", id("other")).status(200).str("access_token"),
		"exchanged for a third": acme.exchanges(t, svid, append(actor(acme.agent(t, "third")), "audience", two)...).status(200).str("access_token"),
	} {
		t.Log(name)
		for _, more := range [][]string{{"resource", two}, {"audience", two}, nil, {"may_act", id("server")}} {
			server.exchanges(t, token, more...).gets(400, refused)
			acme.exchanges(t, token, append(actor(acme.do(t, "GET /v1/agents/server/svid", "").str("svid")), more...)...).gets(400, refused)
			acme.exchanges(t, token, more...).gets(400, refused)
		}
		acme.do(t, "POST /v1/attest", actedBy(currentActor(t, token), token)).status(400)
		acme.exchanges(t, svid, actor(token)...).gets(400, `{"error":"invalid_request","error_description":"actor_token …"}`)
	}
	named := self.exchanges(t, svid, "resource", one, "may_act", id("server")).status(200).str("access_token")
	for _, more := range [][]string{{"resource", two}, nil} {
		members := decoded(t, server.exchanges(t, named, more...).status(200).str("access_token"), 1)
		if members["sub"] != id("planner") || members["act"].(map[string]any)["sub"] != id("server") {
			t.Errorf("%v", members)
		}
	}
	acme.exchanges(t, named, actor(svid)...).gets(400, refused)
}
