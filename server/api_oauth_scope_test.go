package server_test

import (
	"testing"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
)

// oauthClient is an OAuth client of a company.
type oauthClient struct {
	caller
	clientID, secret string
}

// oauthClient makes a client with a role.
func (c caller) oauthClient(t testing.TB, role string) oauthClient {
	t.Helper()
	made := c.do(t, "POST /v1/oauth/clients", `{"role":"`+role+`"}`).status(201)
	return oauthClient{c.anyone(), made.str("clientId"), made.str("clientSecret")}
}

// asks asks for a token; more are pairs of a parameter and its value.
func (c oauthClient) asks(t testing.TB, more []string, headers ...string) *reply {
	t.Helper()
	params := append([]string{"grant_type", "client_credentials", "client_id", c.clientID, "client_secret", c.secret}, more...)
	return c.do(t, tokenCall, oauthForm(params...), append(headers, formType)...)
}

// A token has what its scope names, at most what its client has, and the answer says so. Without a
// scope the answer is the specified one.
func TestScopeNarrowsTokens(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	for _, c := range []struct{ role, asked, granted, may string }{
		{"admin", "", "", "admin"},
		{"admin", "admin", "admin", "admin"},
		{"admin", "writer", "writer", "writer"},
		{"admin", "reader", "reader", "reader"},
		{"admin", "reader writer", "writer reader", "writer"},
		{"admin", "reader reader", "reader", "reader"},
		{"admin", "agent", "-", ""},
		{"admin", "reader agent", "-", ""},
		{"admin", "openid", "-", ""},
		{"admin", "Reader", "-", ""},
		{"admin", "enrolling", "-", ""},
		{"admin", " reader", "-", ""},
		{"admin", "reader\treader", "-", ""},
		{"writer", "writer", "writer", "writer"},
		{"writer", "reader", "reader", "reader"},
		{"writer", "admin", "-", ""},
		{"writer", "admin writer", "-", ""},
		{"reader", "reader", "reader", "reader"},
		{"reader", "writer", "-", ""},
	} {
		t.Run(c.role+" asks for "+c.asked, func(t *testing.T) {
			answer := acme.oauthClient(t, c.role).asks(t, []string{"scope", c.asked})
			switch c.granted {
			case "-":
				answer.gets(400, `{"error":"invalid_scope","error_description":"…"}`)
				return
			case "":
				answer.gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600}`)
			default:
				answer.gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600,"scope":"`+c.granted+`"}`)
			}
			holder := acme.with(answer.str("access_token"))
			rank := map[string]int{"reader": 1, "writer": 2, "admin": 3}[c.may]
			for needs, call := range []string{1: "GET /v1/agents", 2: "POST /v1/attest", 3: "POST /v1/keys"} {
				if needs == 0 {
					continue
				}
				body := ""
				if needs == 2 {
					body = attestBody("a", "1", "")
				}
				got := holder.do(t, call, body)
				if rank >= needs && got.code >= 300 || rank < needs && got.code != 403 {
					t.Errorf("%s with %q: %d", call, c.granted, got.code)
				}
			}
		})
	}
}

// JSON has no other meaning than a form, and what is no text is no scope.
func TestScopeInJSON(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	c := acme.oauthClient(t, "admin")
	body := func(scope string) string {
		return `{"grant_type":"client_credentials","client_id":"` + c.clientID + `","client_secret":"` + c.secret + `","scope":` + scope + `}`
	}
	c.do(t, tokenCall, body(`"reader"`), jsonType).gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600,"scope":"reader"}`)
	c.do(t, tokenCall, body(`null`), jsonType).gets(200, `{"access_token":"oauth_<secret>","token_type":"bearer","expires_in":3600}`)
	for _, scope := range []string{`["reader"]`, `7`, `{}`, `true`} {
		c.do(t, tokenCall, body(scope), jsonType).gets(400, `{"error":"invalid_scope","error_description":"…"}`)
	}
}

// An agent gets the scope agent and no other.
func TestScopeOfAgents(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	asks := func(scope string) *reply {
		return a.anyone().do(t, tokenCall, oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", a.assertion(t), "scope", scope), formType)
	}
	token := asks("agent").gets(200, `{"access_token":"oauth_<secret>","token_type":"Bearer","expires_in":3600,"scope":"agent"}`).str("access_token")
	in := a
	in.caller = a.with(token)
	in.attests(t, "1", "").status(201)
	in.do(t, "GET /v1/agents", "").gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	for _, scope := range []string{"reader", "writer", "admin", "agent reader", "agents"} {
		asks(scope).gets(400, `{"error":"invalid_scope","error_description":"…"}`)
	}
}

// A client's token that is bound to a key counts with proofs of that key, and never as Bearer.
func TestClientTokenIsBound(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	c, key, other := acme.oauthClient(t, "admin"), newKey(t, jose.ES256), newKey(t, jose.EdDSA)
	by := signer{caller: acme}
	answer := c.asks(t, []string{"scope", "reader"}, by.proof(t, key, "POST", "/v1/oauth/token", ""))
	token := answer.gets(200, `{"access_token":"oauth_<secret>","token_type":"DPoP","expires_in":3600,"scope":"reader"}`).str("access_token")
	call := func(headers ...string) *reply { return acme.anyone().do(t, "GET /v1/agents", "", headers...) }
	authorization := "Authorization: DPoP " + token
	proof := by.proof(t, key, "GET", "/v1/agents", token)
	call(authorization, proof).status(200)
	call(authorization, proof).gets(401, `{"error":"Unauthorized: …","code":"INVALID_DPOP_PROOF"}`)
	call(authorization, by.proof(t, other, "GET", "/v1/agents", token)).gets(401, `{"error":"Unauthorized: …","code":"INVALID_DPOP_PROOF"}`)
	call(authorization).gets(401, `{"error":"Unauthorized: …","code":"INVALID_DPOP_PROOF"}`)
	call("Authorization: Bearer "+token, by.proof(t, key, "GET", "/v1/agents", token)).gets(401, `{"error":"Unauthorized: …"}`)

	// the proof in the request for a token counts once too
	once := by.proof(t, key, "POST", "/v1/oauth/token", "")
	c.asks(t, nil, once).status(200)
	c.asks(t, nil, once).gets(400, `{"error":"invalid_dpop_proof","error_description":"…used before…"}`)
	c.asks(t, nil, by.proof(t, key, "GET", "/v1/oauth/token", "")).gets(400, `{"error":"invalid_dpop_proof","error_description":"…"}`)
}
