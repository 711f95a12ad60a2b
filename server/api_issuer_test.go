package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

var tokenAlgorithms = []josev4.SignatureAlgorithm{josev4.ES256, josev4.RS256, josev4.EdDSA}

// keySetOf fetches a key set as a verifier does.
func (s *service) keySetOf(t testing.TB, path string) (set *josev4.JSONWebKeySet) {
	t.Helper()
	r := s.anyone().do(t, "GET "+path, "").status(200)
	must.OK(t, json.Unmarshal(r.raw, &set))
	return set
}

// verified checks a token with a key set, and returns its header and claims.
func verified(t testing.TB, set *josev4.JSONWebKeySet, compact string) (josev4.Header, map[string]any) {
	t.Helper()
	token, err := jwt.ParseSigned(compact, tokenAlgorithms)
	must.OK(t, err)
	keys := set.Key(token.Headers[0].KeyID)
	if len(keys) != 1 {
		t.Fatalf("%d keys with the name %s", len(keys), token.Headers[0].KeyID)
	}
	var claims map[string]any
	must.OK(t, token.Claims(keys[0], &claims))
	return token.Headers[0], claims
}

const fiveMinutes = "public, max-age=300"

// The metadata is at the three places where clients of RFC 8414 and of OpenID Connect look, and a
// page of any origin may read it.
func TestIssuerMetadata(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.company(t, "acme")
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/o/acme", "/.well-known/openid-configuration/o/acme", "/o/acme/.well-known/openid-configuration",
	} {
		r := s.anyone().do(t, "GET "+path, "", "Origin: https://elsewhere.example").gets(200, `{"issuer":"`+s.url+`/o/acme","jwks_uri":"`+s.url+`/o/acme/jwks",
			"token_endpoint":"`+s.url+`/o/acme/token","introspection_endpoint":"`+s.url+`/o/acme/introspect","revocation_endpoint":"`+s.url+`/o/acme/revoke",
			"introspection_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt"],"introspection_endpoint_auth_signing_alg_values_supported":["ES256","RS256","PS256","EdDSA","Ed25519"],
			"revocation_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt"],"revocation_endpoint_auth_signing_alg_values_supported":["ES256","RS256","PS256","EdDSA","Ed25519"],
			"scopes_supported":["admin","writer","reader","agent"],"authorization_endpoint":"`+s.url+`/o/acme/authorize","response_types_supported":["id_token"],
			"grant_types_supported":["client_credentials","urn:ietf:params:oauth:grant-type:jwt-bearer","urn:ietf:params:oauth:grant-type:token-exchange"],"authorization_grant_profiles_supported":["urn:ietf:params:oauth:grant-profile:id-jag"],"token_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post","private_key_jwt"],
			"token_endpoint_auth_signing_alg_values_supported":["ES256","RS256","PS256","EdDSA","Ed25519"],"code_challenge_methods_supported":["S256"],
			"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519"],"id_token_signing_alg_values_supported":["ES256","RS256","EdDSA"],
			"subject_types_supported":["public"],"claims_supported":["iss","sub","aud","iat","nbf","exp","jti","agent_id","org","cnf"],"authorization_details_types_supported":["tool_call"]}`)
		if r.header.Get("Cache-Control") != fiveMinutes || r.header.Get("Access-Control-Allow-Origin") != "*" || r.header.Get("Vary") != "Host, X-Forwarded-Proto" {
			t.Errorf("%s: %v", path, r.header)
		}
		ghost := s.anyone().do(t, "GET "+strings.Replace(path, "/acme", "/ghost", 1), "", "Origin: https://elsewhere.example").gets(404, `{"error":"Company not found: ghost"}`)
		if ghost.header.Get("Access-Control-Allow-Origin") != "*" || ghost.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s of nobody: %v", path, ghost.header)
		}
		s.anyone().do(t, "GET "+path+"?companyId=acme", "").status(400)
		s.anyone().do(t, "POST "+path, "").status(405)
	}
	based := start(t, func(c *server.Config) { c.BaseURL = "https://id.example/" })
	based.company(t, "acme")
	r := based.anyone().do(t, "GET /o/acme/.well-known/openid-configuration", "", "Host: elsewhere.example").has(`{"issuer":"https://id.example/o/acme"}`)
	if r.header.Get("Vary") != "" {
		t.Errorf("%v", r.header)
	}
	odd := start(t, func(c *server.Config) { c.BaseURL = `https://id.example/a"b\ü` })
	odd.company(t, "acme")
	odd.anyone().do(t, "GET /o/acme/.well-known/openid-configuration", "").has(`{"issuer":"https://id.example/a\"b\\ü/o/acme","revocation_endpoint":"https://id.example/a\"b\\ü/o/acme/revoke"}`)
}

// A browser asks first whether a page may send headers of its own, as clients of MCP do. The
// authorization endpoint that they demand gives nothing.
func TestIssuerPreflightAndAuthorize(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	ask := func(call string) *http.Response {
		req := acme.with("").request(t, call, "", "Origin: https://elsewhere.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: mcp-protocol-version")
		res, err := s.client.Do(req)
		must.OK(t, err)
		res.Body.Close()
		return res
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server/o/acme", "/o/acme/jwks"} {
		res := ask("OPTIONS " + path)
		if h := res.Header; res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Methods") != "GET" || h.Get("Access-Control-Allow-Headers") != "*" {
			t.Errorf("%s: %d %v", path, res.StatusCode, h)
		}
	}
	if res := ask("OPTIONS /v1/keys"); res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another route: %d %v", res.StatusCode, res.Header)
	}
	if res := ask("GET /v1/keys"); res.StatusCode != 403 {
		t.Errorf("another route for another page: %d", res.StatusCode)
	}
	if res := ask("GET /o/acme/authorize?response_type=code&client_id=x&redirect_uri=https%3A%2F%2Fevil.example"); res.StatusCode != 400 || res.Header.Get("Location") != "" {
		t.Errorf("authorize: %d %v", res.StatusCode, res.Header)
	}
}

// A token for another audience verifies with the published key set, names the agent and the
// audience, and grants nothing here.
func TestAgentToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	a := acme.signer(t, "bot", jose.ES256)
	set := s.keySetOf(t, "/o/acme/jwks") // cached by a verifier from before the first token
	if len(set.Keys) != 3 {
		t.Errorf("the first reader gets %d keys", len(set.Keys))
	}
	in := a.signsIn(t)
	for _, c := range []struct {
		who            caller
		body, alg, aud string
		lifetime       int
	}{
		{acme, `{"audience":"https://mcp.example"}`, "ES256", `"https://mcp.example"`, 300},
		{in.caller, `{"audience":["api://AzureADTokenExchange"],"alg":"RS256","ttl":3000}`, "RS256", `"api://AzureADTokenExchange"`, 3000},
		{acme, `{"audience":["a","b"],"alg":"EdDSA","ttl":1}`, "EdDSA", `["a","b"]`, 1},
		{acme, `{"audience":"a","alg":null,"ttl":null}`, "ES256", `"a"`, 300},
	} {
		r := c.who.do(t, "POST /v1/agents/bot/token", c.body).gets(201, `{"token":"…","tokenType":"urn:ietf:params:oauth:token-type:jwt","expiresAt":"<time>"}`)
		header, claims := verified(t, set, r.str("token"))
		if header.Algorithm != c.alg || header.ExtraHeaders["typ"] != "JWT" {
			t.Errorf("%s: %+v", c.body, header)
		}
		aud, err := json.Marshal(claims["aud"])
		must.OK(t, err)
		iat, exp := claims["iat"].(float64), claims["exp"].(float64)
		if string(aud) != c.aud || claims["iss"] != s.url+"/o/acme" || claims["sub"] != a.spiffe() || claims["agent_id"] != "bot" || claims["org"] != "acme" ||
			claims["nbf"] != iat || exp-iat != float64(c.lifetime) || len(claims["jti"].(string)) != 36 || len(claims) != 9 {
			t.Errorf("%s: %v", c.body, claims)
		}
		token := r.str("token")
		acme.with(token).do(t, "GET /v1/company", "").status(401)
		acme.do(t, "POST /v1/attest", `{"agentId":"bot","actionType":"note","payload":1,"delegation":"`+token+`"}`).status(400)
		acme.do(t, "POST /v1/passport/verify", `{"passport":"`+token+`"}`).gets(400, `{"valid":false,"error":"…","code":"…"}`)
		a.with("").do(t, tokenCall, signInBody(token), "Content-Type: application/json").status(401)
	}
	bound := a.with("").do(t, tokenCall, signInBody(a.assertion(t)), "Content-Type: application/json", a.proof(t, a.key, "POST", "/v1/oauth/token", "")).status(200).str("access_token")
	const path = "/v1/agents/bot/token"
	r := a.with("").do(t, "POST "+path, `{"audience":"a"}`, "Authorization: DPoP "+bound, a.proof(t, a.key, "POST", path, bound)).status(201)
	if _, claims := verified(t, s.keySetOf(t, "/o/acme/jwks"), r.str("token")); claims["cnf"].(map[string]any)["jkt"] != a.thumbprint() {
		t.Errorf("%v", claims)
	}
	zoo := s.company(t, "zoo")
	zoo.agent(t, "bot")
	zoo.do(t, "POST "+path, `{"audience":"a"}`).status(201)
	for _, key := range s.keySetOf(t, "/o/zoo/jwks").Keys {
		if len(set.Key(key.KeyID)) != 0 {
			t.Error("two companies have a key in common")
		}
	}
}

// Unauthenticated reads of the key sets of many companies create the keys of some. No reader gets a
// set without a key that signs later: a read that comes too early is asked to retry, and that
// answer is not cached. A caller with a credential still gets a token.
func TestEmptyKeySetsAreNotPublished(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s := start(t)
	companies, answers := make([]caller, 30), make([]*reply, 30)
	for i := range companies {
		companies[i] = s.company(t, fmt.Sprintf("c%d", i))
	}
	var all sync.WaitGroup
	for i, c := range companies { // at once, so that the clock of a slow machine lets no more in
		all.Go(func() {
			answers[i] = s.anyone().do(t, "GET /o/"+c.id+"/"+[]string{"jwks", "spiffe-bundle"}[i%2], "")
		})
	}
	all.Wait()
	var later []caller
	for i, c := range companies {
		r := answers[i]
		if r.code == 200 {
			if keys := r.at("keys").([]any); len(keys) < 2 {
				t.Errorf("%s", r.raw)
			}
			continue
		}
		r.gets(503, `{"error":"Service Unavailable: the company has no token keys yet, …","code":"NOT_DONE","requestId":"…"}`).sets("Cache-Control: no-store", "Retry-After: 5")
		later = append(later, c)
	}
	if len(later) == 0 || len(later) > 10 {
		t.Fatalf("%d companies of 30 wait for their keys", len(later))
	}
	c := later[0]
	c.agent(t, "bot")
	token := c.do(t, "POST /v1/agents/bot/token", `{"audience":"a"}`).status(201).str("token")
	verified(t, s.keySetOf(t, "/o/"+c.id+"/jwks"), token)
	c.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

// These callers may not get a token for an agent, and these requests get no token.
func TestAgentTokenIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	in := acme.signer(t, "bot", jose.EdDSA).signsIn(t)
	acme.agent(t, "other")
	writer := acme.with(acme.do(t, "POST /v1/keys", `{"role":"writer"}`).status(201).str("key"))
	const good = `{"audience":"a"}`
	in.do(t, "POST /v1/agents/other/token", good).gets(403, `{"error":"…","code":"FORBIDDEN_AGENT"}`)
	writer.do(t, "POST /v1/agents/bot/token", good).gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`)
	s.anyone().do(t, "POST /v1/agents/bot/token", good).status(401)
	acme.do(t, "POST /v1/agents/ghost/token", good).gets(404, `{"error":"Agent not found: ghost"}`)
	long := strings.Repeat("a", 1025)
	for _, body := range []string{
		``, `{}`, `{"audience":null}`, `{"audience":""}`, `{"audience":[]}`, `{"audience":[""]}`, `{"audience":["a","a"]}`, `{"audience":1}`, `{"audience":["a",1]}`, `{"audience":{"a":1}}`,
		`{"audience":"a b"}`, `{"audience":"ü"}`, `{"audience":"a\n"}`, `{"audience":"` + long + `"}`, `{"audience":["1","2","3","4","5","6","7","8","9","10","11"]}`,
		`{"audience":"a","alg":"HS256"}`, `{"audience":"a","alg":"none"}`, `{"audience":"a","alg":"es256"}`, `{"audience":"a","alg":1}`, `{"audience":"a","ttl":0}`, `{"audience":"a","ttl":3601}`,
		`{"audience":"a","ttl":"60"}`, `{"audience":"a","sub":"spiffe://x"}`, `{"audience":"a","audience":"b"}`, `{"audience":"a","iss":"https://x"}`,
	} {
		acme.do(t, "POST /v1/agents/bot/token", body).status(400)
	}
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	acme.do(t, "POST /v1/agents/bot/token", good).gets(403, `{"error":"…","code":"AGENT_DISABLED"}`)
	if log := string(acme.do(t, "GET /v1/chain?log=control", "").raw); strings.Contains(log, "token-key.created") {
		t.Error("a refusal has made a key")
	}
}

// An SVID for an audience verifies with the company's bundle, which has no key that SPIFFE software
// refuses; without parameters it is the one of the specification.
func TestAgentSVIDForAudience(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	first := s.anyone().do(t, "GET /o/acme/spiffe-bundle", "").status(200)
	if len(first.at("keys").([]any)) != 2 || first.header.Get("Cache-Control") != fiveMinutes || first.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%s %v", first.raw, first.header)
	}
	acme.do(t, "GET /v1/agents/bot/svid", "").gets(200, `{"agentId":"bot","spiffeId":"`+acme.companySPIFFE()+`/agent/bot","svid":"<token>"}`)
	for _, algorithm := range []string{"ES256", "RS256"} {
		r := acme.do(t, "GET /v1/agents/bot/svid?audience=spiffe%3A%2F%2Fmesh%2Fpay&alg="+algorithm, "").has(`{"agentId":"bot","expiresAt":"<time>"}`)
		header, claims := verified(t, s.keySetOf(t, "/o/acme/spiffe-bundle"), r.str("svid"))
		if header.Algorithm != algorithm || claims["sub"] != acme.companySPIFFE()+"/agent/bot" || claims["aud"] != "spiffe://mesh/pay" ||
			claims["exp"].(float64)-claims["iat"].(float64) != 300 || len(claims) != 5 {
			t.Errorf("%+v %v", header, claims)
		}
	}
	bundle := s.anyone().do(t, "GET /o/acme/spiffe-bundle", "")
	if keys := bundle.at("keys").([]any); len(keys) != 2 || bundle.at("spiffe_sequence").(float64) == 0 || strings.Contains(string(bundle.raw), `"sig"`) {
		t.Errorf("%s", bundle.raw)
	}
	for _, query := range []string{"audience=", "alg=ES256", "audience=a%20b", "audience=a&audience=b", "audience=a&alg=HS256", "audience=" + strings.Repeat("a", 1025)} {
		acme.do(t, "GET /v1/agents/bot/svid?"+query, "").status(400)
	}
}

// A rotation publishes the next key at once and signs with the one before it; after a theft no
// earlier key is published any more.
func TestRotationOfTokenKeys(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	acme.agent(t, "bot")
	issue := func() string {
		return acme.do(t, "POST /v1/agents/bot/token", `{"audience":"a"}`).status(201).str("token")
	}
	before := issue()
	acme.do(t, "POST /v1/companies/rotate-keys", "").status(200)
	set := s.keySetOf(t, "/o/acme/jwks")
	header, _ := verified(t, set, before)
	if again, _ := verified(t, set, issue()); len(set.Keys) != 6 || again.KeyID != header.KeyID {
		t.Errorf("%d keys, and %s signs after %s", len(set.Keys), again.KeyID, header.KeyID)
	}
	acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
	after := s.keySetOf(t, "/o/acme/jwks")
	if _, claims := verified(t, after, issue()); len(after.Keys) != 3 || len(set.Key(after.Keys[0].KeyID)) != 0 || claims["org"] != "acme" {
		t.Errorf("%v after %v", after, set)
	}
}

// The key of a token from one server is published by the other at once, and no compromised key is.
func TestTokenKeysOfTwoServers(t *testing.T) {
	testenv.Needs(t, testenv.NotQuick)
	t.Parallel()
	first, second := startTwo(t)
	acme := first.company(t, "acme")
	acme.agent(t, "bot")
	for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
		second.keySetOf(t, "/o/acme/jwks") // which it caches
		token := acme.do(t, "POST /v1/agents/bot/token", `{"audience":"a","alg":"`+algorithm+`"}`).status(201).str("token")
		verified(t, second.keySetOf(t, "/o/acme/jwks"), token)
	}
	before := second.keySetOf(t, "/o/acme/jwks")
	acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
	after := second.keySetOf(t, "/o/acme/jwks")
	for _, k := range after.Keys {
		if len(before.Key(k.KeyID)) != 0 {
			t.Error("the other server publishes a compromised key")
		}
	}
	if len(after.Keys) != 3 {
		t.Errorf("%d keys", len(after.Keys))
	}
}
