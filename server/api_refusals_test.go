package server_test

import (
	"strings"
	"testing"

	"attestd/crypto/cred"
	"attestd/crypto/passkey"
)

// refusals returns how many sign-ins the control log of a company says were refused, by how.
func (c caller) refusals(t testing.TB) map[string]int {
	t.Helper()
	counts := make(map[string]int)
	for _, r := range c.do(t, "GET /v1/records?log=control&action=sign-in.refused", "").status(200).at("records").([]any) {
		payload := r.(map[string]any)["payload"].(map[string]any)["payload"].(map[string]any)
		how := payload["how"].(string)
		counts[how] += int(payload["count"].(float64))
		if minute := payload["minute"].(string); !strings.HasSuffix(minute, ":00.000Z") || payload["by"] != nil || payload["subject"] != "refused-sign-ins:"+how || len(payload) != 5 {
			t.Errorf("payload: %v", payload)
		}
	}
	return counts
}

// Refused sign-ins are counted in the control log of the company at which they were refused, and
// nothing is recorded of what was presented. What was counted last is written when a server stops.
func TestRefusedSignInsAreCounted(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	alice := acme.person(t, "alice", "admin")
	client, other := acme.oauthClient(t, "reader"), zoo.oauthClient(t, "reader")
	acme.agent(t, "bot")
	bot := acme.signer(t, "bot", "EdDSA")
	ci := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("ci", ci.URL, acme.issuer(), ciRules)).status(201)
	const guess = "a-secret-that-somebody-guessed"
	ask := func(path, id, secret string) *reply {
		return s.anyone().do(t, "POST "+path, oauthForm("grant_type", "client_credentials", "client_id", id, "client_secret", secret), formType)
	}

	// at acme, by the path or by what is presented
	ask("/v1/oauth/token", client.clientID, guess).status(401)
	ask("/o/acme/token", client.clientID, guess).status(401)
	ask("/o/acme/token", "cc_nobody", guess).status(401)
	ask("/o/acme/token", other.clientID, other.secret).status(401)
	assertion := bot.assertion(t)
	s.anyone().do(t, tokenCall, signInBody(assertion), jsonType).status(200)
	s.anyone().do(t, tokenCall, signInBody(assertion), jsonType).status(401)
	acme.federates(t, ci.token(t, acme.issuer(), claims{"ref": "refs/heads/other"})).status(400)
	s.anyone().do(t, "POST /o/acme/token", assertionBody("no.token.at-all"), jsonType).status(400)
	zoo.federates(t, ci.token(t, zoo.issuer(), nil)).status(400)
	alice.cookie = ""
	elsewhere := alice.Assertion(alice.Get(t, "http://localhost:1", "localhost", challengeOf(t, alice.asks(t, "POST /v1/people/sign-in/options", ""))), alice.handle)
	alice.asks(t, "POST /v1/people/sign-in", body(t, "credential", elsewhere)).status(401)
	alice.signsIn(t).status(200)
	alice.asks(t, "POST /v1/people/me/reauthenticate", body(t, "credential", elsewhere)).status(401)
	// at no company that is known
	ask("/v1/oauth/token", "cc_nobody", guess).status(401)
	ask("/o/nobody/token", "cc_nobody", guess).status(401)
	acme.with("key_of_nobody").do(t, "GET /v1/company", "").status(401)
	stranger := s.browser(t, passkey.ES256)
	unknown := stranger.Assertion(stranger.Get(t, alice.origin, alice.rpID, challengeOf(t, stranger.asks(t, "POST /v1/people/sign-in/options", ""))), alice.handle)
	stranger.asks(t, "POST /v1/people/sign-in", body(t, "credential", unknown)).status(401)
	// and what is no refusal
	ask("/o/acme/token", client.clientID, client.secret).status(200)
	ask("/o/acme/token", client.clientID, "").status(400)

	s.stop()
	again := startOn(t, s.path, cred.Domain{})
	acme, zoo = caller{again, "acme", acme.credential}, caller{again, "zoo", zoo.credential}
	same(t, "refused at acme", acme.refusals(t), map[string]int{"token": 5, "federation": 2, "passkey": 2})
	same(t, "refused at zoo", zoo.refusals(t), map[string]int{"federation": 1})
	if raw := acme.do(t, "GET /v1/chain?log=control", "").status(200).raw; strings.Contains(string(raw), guess) {
		t.Error("the control log has a secret that was guessed")
	}
	acme.do(t, "GET /v1/verify?log=control", "").status(200).contains(`"valid":true`)
}
