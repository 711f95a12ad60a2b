package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/server"
)

// An agent that has signed in acts for itself, and does nothing else.
func TestAgentActsForItselfAlone(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA).signsIn(t)
	acme.agent(t, "other")
	passport := acme.passport(t, "bot", "")
	a.attests(t, "1", "").status(201)
	a.attests(t, "1", a.states(t, a.claims(t, "note", "1")).Compact).status(201)
	a.do(t, "POST /v1/attest/batch", `{"records":[`+attestBody("bot", "2", "")+`]}`).status(201)
	a.do(t, "POST /v1/hooks/claude-code?agent=bot", postToolUse).status(200)
	a.do(t, "GET /v1/agents/bot/svid", "").status(200)
	a.do(t, "POST /v1/passport/verify", `{"passport":"`+passport+`"}`).status(200)
	a.do(t, "POST /v1/agents/bot/passport/rotate", "", "Service-Passport: "+passport).status(200)
	a.do(t, "GET "+a.keys(), "").status(200)
	const forbidden = `{"error":"…","code":"FORBIDDEN_AGENT"}`
	a.do(t, "POST /v1/attest", attestBody("other", "1", "")).gets(403, forbidden)
	a.do(t, "POST /v1/attest/batch", `{"records":[`+attestBody("bot", "2", "")+`,`+attestBody("other", "2", "")+`]}`).gets(403, `{"error":"…","code":"FORBIDDEN_AGENT","pointer":"/records/1/agentId"}`)
	a.do(t, "POST /v1/hooks/claude-code?agent=other", postToolUse).gets(403, forbidden)
	a.do(t, "POST /v1/hooks/claude-code", postToolUse).gets(403, forbidden)
	for _, call := range []string{"GET /v1/agents/other/svid", "GET /v1/agents/other/keys", "DELETE /v1/agents/other/keys/x", "POST /v1/agents/other/passport/rotate", "GET /v1/agents/ghost/svid"} {
		a.do(t, call, "").gets(403, forbidden)
	}
	for _, call := range []string{
		"GET /v1/agents", "GET /v1/agents/bot", "GET /v1/chain", "GET /v1/records", "GET /v1/company", "POST /v1/keys", "GET /v1/credentials", "GET /v1/sessions",
		"POST /v1/agents/bot/passport", "POST /v1/agents/bot/disable", "POST /v1/agents/bot/enrolments", "PUT /v1/agents/bot/policy", "PUT /v1/company/policy", "GET /v1/evidence/0", "GET /v1/verify",
	} {
		a.do(t, call, "").gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	}
	a.do(t, "GET /v1/ws", "", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==").status(403)
}

// A token ends with its key and with its agent, at the next request.
func TestAgentTokenEndsWithItsKey(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a := acme.signer(t, "bot", jose.EdDSA)
	in := a.signsIn(t)
	in.do(t, "GET "+a.keys(), "").status(200)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	in.do(t, "GET "+a.keys(), "").status(401)
	a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json").gets(401, `{"error":"invalid_client","error_description":"…"}`)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	in.do(t, "GET "+a.keys(), "").status(200)
	acme.do(t, "DELETE "+a.keys()+"/"+a.thumbprint(), "").status(200)
	in.do(t, "GET "+a.keys(), "").status(401)
	a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json").gets(401, `{"error":"invalid_client","error_description":"…"}`)
}

// When a key expires, its token ends with it.
func TestAgentTokenEndsNoLaterThanItsKey(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	acme.agent(t, "bot")
	a := signer{acme, "bot", newKey(t, jose.EdDSA)}
	a.enrol(t, a.key, `"expiresAt":"`+time.Now().Add(10*time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")+`"`).status(201)
	answer := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json").status(200)
	if in, _ := answer.at("expires_in").(float64); in <= 0 || in > 600 {
		t.Errorf("expires_in %v", answer.at("expires_in"))
	}
}

// An assertion is refused for any fault, always as invalid_client.
func TestClientAssertionIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	a, other := acme.signer(t, "bot", jose.EdDSA), acme.signer(t, "other", jose.ES256)
	now := time.Now().Unix()
	claims := func(change map[string]any) string {
		c := map[string]any{"iss": a.spiffe(), "sub": a.spiffe(), "aud": s.url + "/v1/oauth/token", "jti": "j", "exp": now + 60}
		for name, v := range change {
			if c[name] = v; v == nil {
				delete(c, name)
			}
		}
		header := map[string]any{"alg": "EdDSA", "typ": "JWT", "kid": a.thumbprint()}
		return josetest.Forge(t, a.key, josetest.Marshal(t, header), josetest.Marshal(t, c))
	}
	ask := func(assertionText string, headers ...string) *reply {
		return s.anyone().do(t, tokenCall, signInBody(assertionText), append(headers, "Content-Type: application/json")...)
	}
	ghost := signer{acme, "ghost", a.key}
	for does, text := range map[string]string{
		"nothing":           "",
		"no JWS":            "x",
		"another agent":     claims(map[string]any{"iss": other.spiffe(), "sub": other.spiffe()}),
		"two agents":        claims(map[string]any{"iss": other.spiffe()}),
		"no agent":          claims(map[string]any{"iss": acme.companySPIFFE(), "sub": acme.companySPIFFE()}),
		"another audience":  claims(map[string]any{"aud": "https://elsewhere.example/token"}),
		"two audiences":     claims(map[string]any{"aud": []string{s.url + "/v1/oauth/token", "https://elsewhere.example"}}),
		"no jti":            claims(map[string]any{"jti": nil}),
		"no exp":            claims(map[string]any{"exp": nil}),
		"ended":             claims(map[string]any{"exp": now - 1}),
		"too long":          claims(map[string]any{"exp": now + 400}),
		"not yet":           claims(map[string]any{"nbf": now + 120}),
		"from the future":   claims(map[string]any{"iat": now + 120}),
		"an unknown agent":  ghost.assertion(t),
		"a changed sig":     tampered(a.assertion(t)),
		"another trust dom": claims(map[string]any{"iss": "spiffe://other/company/acme/agent/bot", "sub": "spiffe://other/company/acme/agent/bot"}),
	} {
		t.Run(does, func(t *testing.T) {
			ask(text).gets(401, `{"error":"invalid_client","error_description":"…"}`)
		})
	}
	good := a.assertion(t)
	ask(good).gets(200, `{"access_token":"oauth_<secret>","token_type":"Bearer","expires_in":3600}`)
	ask(good).gets(401, `{"error":"invalid_client","error_description":"…used before"}`)
	ask(claims(map[string]any{"aud": "spiffe://attestd.local/ca", "jti": "i"})).status(401)
	ask(claims(map[string]any{"aud": []string{s.url + "/v1/oauth/token"}, "jti": "k", "exp": float64(now) + 30.5})).status(200)
	s.anyone().do(t, tokenCall, "grant_type=client_credentials&client_assertion="+a.assertion(t), "Content-Type: application/x-www-form-urlencoded").gets(401, `{"error":"invalid_client","error_description":"…"}`)
	s.anyone().do(t, tokenCall, "grant_type=client_credentials&client_secret=x&client_id=y&client_assertion_type="+assertion.Type+"&client_assertion="+a.assertion(t), "Content-Type: application/x-www-form-urlencoded").gets(400, `{"error":"invalid_request","error_description":"…"}`)
}

// A token that is bound to a key counts with a new proof of that key for each request, and never as
// Bearer.
func TestBoundTokenNeedsProofs(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	a, other := acme.signer(t, "bot", jose.ES256), acme.signer(t, "other", jose.EdDSA)
	a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", a.proof(t, other.key, "POST", "/v1/oauth/token", "")).gets(400, `{"error":"invalid_dpop_proof","error_description":"…"}`)
	answer := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", a.proof(t, a.key, "POST", "/v1/oauth/token", ""))
	token := answer.gets(200, `{"access_token":"oauth_<secret>","token_type":"DPoP","expires_in":3600}`).str("access_token")
	once := a.proof(t, a.key, "POST", "/v1/oauth/token", "")
	again := a.assertion(t)
	a.with("").do(t, tokenCall, signInBody(again), "Content-Type: application/json", once).status(200)
	a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", once).gets(400, `{"error":"invalid_dpop_proof","error_description":"…used before…"}`)
	a.with("").do(t, tokenCall, signInBody(again), "Content-Type: application/json", a.proof(t, a.key, "POST", "/v1/oauth/token", "")).gets(401, `{"error":"invalid_client","error_description":"…used before"}`)
	bound := a.with("")
	call := func(headers ...string) *reply { return bound.do(t, "GET "+a.keys(), "", headers...) }
	authorization := "Authorization: DPoP " + token
	proof := a.proof(t, a.key, "GET", a.keys(), token)
	call(authorization, proof).status(200)
	const refused = `WWW-Authenticate: DPoP error="invalid_dpop_proof", algs="EdDSA Ed25519 ES256", scope="reader", resource_metadata="…"`
	for does, headers := range map[string][]string{
		"repeated":        {authorization, proof},
		"missing":         {authorization},
		"another method":  {authorization, a.proof(t, a.key, "POST", a.keys(), token)},
		"another URL":     {authorization, a.proof(t, a.key, "GET", "/v1/agents/bot/svid", token)},
		"no token in it":  {authorization, a.proof(t, a.key, "GET", a.keys(), "")},
		"another token":   {authorization, a.proof(t, a.key, "GET", a.keys(), token+"x")},
		"another key":     {authorization, a.proof(t, other.key, "GET", a.keys(), token)},
		"a changed proof": {authorization, tampered(a.proof(t, a.key, "GET", a.keys(), token))},
	} {
		t.Run(does, func(t *testing.T) {
			call(headers...).gets(401, `{"error":"Unauthorized: …","code":"INVALID_DPOP_PROOF"}`).sets(refused)
		})
	}
	call("Authorization: Bearer "+token, a.proof(t, a.key, "GET", a.keys(), token)).gets(401, `{"error":"Unauthorized: …"}`)
	call(authorization, a.proof(t, a.key, "GET", a.keys(), token), a.proof(t, a.key, "GET", a.keys(), token)).status(400)
	call("Authorization: DPoP "+acme.credential, a.proof(t, a.key, "GET", a.keys(), acme.credential)).status(401)
	call("Authorization: dpop "+token, a.proof(t, a.key, "GET", a.keys()+"?x", token)).status(200)

	// the header has the proof of the token, so the proof of the next key is in the body
	next := newKey(t, jose.EdDSA)
	ofNext := strings.TrimPrefix(a.proof(t, next, "POST", a.keys(), ""), "DPoP: ")
	bound.do(t, "POST "+a.keys(), enrolBody(next, `"endorsement":"`+a.endorses(t, next)+`"`), authorization, a.proof(t, a.key, "POST", a.keys(), token)).gets(400, `{"error":"…","code":"INVALID_DPOP_PROOF"}`)
	bound.do(t, "POST "+a.keys(), enrolBody(next, `"endorsement":"`+a.endorses(t, next)+`"`, `"proof":"`+ofNext+`"`), authorization, a.proof(t, a.key, "POST", a.keys(), token)).status(201)
}

// Behind a proxy the URL of a proof is the public one.
func TestProofsBehindAProxy(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *server.Config) { c.BaseURL = "https://attestd.example/" })
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	a := signer{acme, "bot", newKey(t, jose.EdDSA)}
	a.enrol(t, a.key).status(400)
	public := *s
	public.url = "https://attestd.example"
	proof := signer{caller{&public, "acme", ""}, "bot", a.key}.proof(t, a.key, http.MethodPost, a.keys(), "")
	acme.do(t, "POST "+a.keys(), enrolBody(a.key), proof).status(201)
}
