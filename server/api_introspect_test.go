package server_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/internal/must"
)

// basic is the client by HTTP Basic.
func (c oauthClient) basic() string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(c.clientID+":"+c.secret))
}

func (c oauthClient) token(t testing.TB, more ...string) string {
	t.Helper()
	return c.asks(t, more).status(200).str("access_token")
}

// about asks about a token, at one of the endpoints of a company.
func (c caller) about(t testing.TB, company, what, token string, headers ...string) *reply {
	t.Helper()
	return c.do(t, "POST /o/"+company+"/"+what, oauthForm("token", token), append(headers, formType)...)
}

const inactive = `{"active":false}`

// Introspection describes the rights of an access token of the company.
func TestIntrospection(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	c, asks := acme.oauthClient(t, "writer"), acme.oauthClient(t, "reader")
	bot := acme.signer(t, "bot", jose.EdDSA)
	issuer := s.url + "/o/acme"
	want := func(rest string) string {
		return `{"active":true,"iss":"` + issuer + `","aud":"` + issuer + `","org":"acme","exp":"<number>",` + rest + `}`
	}
	ofClient := `"sub":"` + c.clientID + `","client_id":"` + c.clientID + `",`
	ofBot := `"sub":"` + bot.spiffe() + `","client_id":"` + bot.spiffe() + `","agent_id":"bot","scope":"agent",`
	key := newKey(t, jose.ES256)
	bound := c.asks(t, []string{"scope", "reader"}, signer{caller: acme}.proof(t, key, "POST", "/v1/oauth/token", "")).str("access_token")
	for _, row := range []struct{ does, token, gets string }{
		{"the role of the client", c.token(t), want(ofClient + `"scope":"writer","token_type":"Bearer"`)},
		{"the scope", c.token(t, "scope", "reader"), want(ofClient + `"scope":"reader","token_type":"Bearer"`)},
		{"several", c.token(t, "scope", "reader writer"), want(ofClient + `"scope":"writer reader","token_type":"Bearer"`)},
		{"a bound one", bound, want(ofClient + `"scope":"reader","token_type":"DPoP","cnf":{"jkt":"` + key.Key().Thumbprint + `"}`)},
		{"an agent's", bot.signsIn(t).credential, want(ofBot + `"token_type":"Bearer"`)},
		{"an API key", acme.credential, inactive},
		{"a secret", c.secret, inactive},
		{"no token of anybody", "oauth_" + strings.Repeat("A", 43), inactive},
		{"anything", "x", inactive},
		{"an SVID", acme.do(t, "GET /v1/agents/bot/svid", "").status(200).str("svid"), inactive},
	} {
		t.Run(row.does, func(t *testing.T) {
			s.anyone().about(t, "acme", "introspect", row.token, asks.basic()).gets(200, row.gets).sets("Cache-Control: no-store")
			// from the cache
			s.anyone().about(t, "acme", "introspect", row.token, asks.basic()).gets(200, row.gets)
		})
	}
}

// Who may ask: clients and agents of the company, and its admins.
func TestIntrospectionAuthenticates(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	c, other := acme.oauthClient(t, "reader"), zoo.oauthClient(t, "admin")
	bot := acme.signer(t, "bot", jose.EdDSA)
	token := c.token(t)
	post := oauthForm("token", token, "client_id", c.clientID, "client_secret", c.secret)
	signed := func(audience string) string {
		text, err := assertion.Make(t.Context(), bot.key, bot.spiffe(), audience, time.Now())
		must.OK(t, err)
		return oauthForm("token", token, "client_assertion_type", assertion.Type, "client_assertion", text)
	}
	reader := acme.do(t, "POST /v1/keys", `{"role":"writer"}`).status(201).str("key")
	const active, client, unauthorized = `"<anything>"`, `{"error":"invalid_client"}`, `{"error":"Unauthorized"}`
	asserted := `{"error":"invalid_client","error_description":"…"}`
	form := oauthForm("token", token)
	once := signed(s.url + "/o/acme/introspect")
	ask := func(does string, as caller, company, body string, status int, gets string, headers ...string) row {
		return row{does: does, as: as, call: "POST /o/" + company + "/introspect", body: body, headers: append(headers, formType), status: status, gets: gets}
	}
	table(t, []row{
		ask("a client by Basic", s.anyone(), "acme", form, 200, active, c.basic()),
		ask("a client in the body", s.anyone(), "acme", post, 200, active),
		ask("a client's token", acme.with(token), "acme", form, 200, active),
		ask("an agent's token", bot.signsIn(t).caller, "acme", form, 200, active),
		ask("an agent's assertion", s.anyone(), "acme", once, 200, active),
		ask("an assertion for the issuer", s.anyone(), "acme", signed(s.url+"/o/acme"), 200, active),
		ask("an assertion for the token endpoint", s.anyone(), "acme", signed(s.url+"/o/acme/token"), 200, active),
		ask("an admin's key", acme, "acme", form, 200, active),

		ask("the same assertion again", s.anyone(), "acme", once, 401, asserted),
		ask("an assertion for another company's issuer", s.anyone(), "acme", signed(s.url+"/o/zoo"), 401, asserted),
		ask("another key than an admin's", acme.with(reader), "acme", form, 403, `{"error":"…","code":"FORBIDDEN_ROLE"}`),
		ask("nobody", s.anyone(), "acme", form, 401, client),
		ask("a wrong secret", s.anyone(), "acme", form, 401, client, oauthClient{clientID: c.clientID, secret: "x"}.basic()),
		ask("an unknown key", acme.with("svc_x"), "acme", form, 401, unauthorized),
		ask("a client of another company", s.anyone(), "acme", form, 401, client, other.basic()),
		ask("an admin of another company", zoo, "acme", form, 401, unauthorized),
		ask("a token of another company", zoo.with(other.token(t)), "acme", form, 401, unauthorized),
		ask("an agent at another company", s.anyone(), "zoo", signed(s.url+"/o/zoo"), 401, `{"error":"invalid_client"}`),
		ask("a company that is not there", acme, "ghost", form, 401, unauthorized),
		ask("a client at a company that is not there", s.anyone(), "ghost", form, 401, client, c.basic()),
		ask("no token", s.anyone(), "acme", oauthForm("token", ""), 400, `{"error":"invalid_request","error_description":"token is required"}`, c.basic()),
		ask("two ways", s.anyone(), "acme", post, 400, `{"error":"invalid_request","error_description":"…"}`, c.basic()),
	})
	acme.do(t, "POST /o/acme/introspect", `{"token":"`+token+`"}`, jsonType).status(200).contains(`"active":true`)
	acme.do(t, "POST /o/acme/introspect", form, "Content-Type: text/plain").gets(400, `{"error":"invalid_request","error_description":"…"}`)
}

// Another company's token looks like one that never existed, for every caller.
func TestIntrospectionIsOfOneCompany(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	token := acme.oauthClient(t, "admin").token(t)
	for range 2 {
		acme.about(t, "acme", "introspect", token).status(200)
		zoo.about(t, "zoo", "introspect", token).gets(200, inactive)
		zoo.about(t, "zoo", "revoke", token).gets(200, `{}`)
	}
	acme.with(token).do(t, "GET /v1/company", "").status(200)
}

// A revoked token counts no more anywhere when the answer is there; its holder's others go on.
func TestRevocation(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	c, other, boss := acme.oauthClient(t, "writer"), acme.oauthClient(t, "reader"), acme.oauthClient(t, "admin")
	bot := acme.signer(t, "bot", jose.EdDSA)
	gone := func(token string) {
		t.Helper()
		acme.about(t, "acme", "introspect", token).gets(200, inactive)
		acme.with(token).do(t, "POST /v1/attest", attestBody("bot", "1", "")).status(401)
	}
	live := func(token string) {
		t.Helper()
		acme.with(token).do(t, "POST /v1/attest", attestBody("bot", "1", "")).status(201)
		acme.about(t, "acme", "introspect", token).status(200).contains(`"active":true`)
	}
	one, two := c.token(t), c.token(t)
	live(one)
	live(two)
	s.anyone().about(t, "acme", "revoke", one, c.basic()).gets(200, `{}`)
	gone(one)
	live(two)
	s.anyone().about(t, "acme", "revoke", one, c.basic()).gets(200, `{}`) // again
	s.anyone().about(t, "acme", "revoke", "oauth_"+strings.Repeat("A", 43), c.basic()).gets(200, `{}`)
	s.anyone().about(t, "acme", "revoke", two, other.basic()).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
	live(two)
	s.anyone().about(t, "acme", "revoke", two, boss.basic()).gets(200, `{}`) // an admin's client
	gone(two)
	three := c.token(t)
	acme.with(three).about(t, "acme", "revoke", three).gets(200, `{}`) // by itself
	gone(three)

	ofBot := bot.signsIn(t).credential
	s.anyone().about(t, "acme", "revoke", ofBot, c.basic()).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
	live(ofBot)
	acme.about(t, "acme", "revoke", ofBot).gets(200, `{}`) // by an admin's key
	gone(ofBot)
	acme.about(t, "acme", "revoke", acme.credential).gets(200, `{}`)
	acme.do(t, "GET /v1/company", "").status(200) // an API key is no access token
	s.anyone().about(t, "acme", "revoke", ofBot).gets(401, `{"error":"invalid_client"}`)
}

// The token endpoint of a company knows its own clients and agents alone.
func TestTokenEndpointOfACompany(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	c, bot := acme.oauthClient(t, "reader"), acme.signer(t, "bot", jose.ES256)
	form := oauthForm("grant_type", "client_credentials", "client_id", c.clientID, "client_secret", c.secret)
	const issued = `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600}`
	c.do(t, "POST /o/acme/token", form, formType).gets(200, issued)
	c.do(t, "POST /o/zoo/token", form, formType).gets(401, `{"error":"invalid_client"}`)
	c.do(t, "POST /o/ghost/token", form, formType).gets(401, `{"error":"invalid_client"}`)
	signIn := func(company, audience string) *reply {
		text, err := assertion.Make(t.Context(), bot.key, bot.spiffe(), audience, time.Now())
		must.OK(t, err)
		return s.anyone().do(t, "POST /o/"+company+"/token", signInBody(text), jsonType)
	}
	signIn("acme", s.url+"/o/acme").status(200)
	signIn("acme", s.url+"/o/acme/token").status(200)
	signIn("acme", s.url+"/v1/oauth/token").status(401)
	signIn("zoo", s.url+"/o/zoo").gets(401, `{"error":"invalid_client"}`)
	zoo.do(t, "GET /o/acme/token", "").gets(405, `{"error":"…"}`)
}
