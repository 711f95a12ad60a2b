package server_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/server"
)

// decoded is a part of a JWT.
func decoded(t testing.TB, jwt string, part int) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(jwt, ".")[part])
	must.OK(t, err)
	var m map[string]any
	must.OK(t, json.Unmarshal(raw, &m))
	return m
}

// With a resource the access token is a JWT of the company's issuer for that resource (RFC 8707,
// RFC 9068), which introspection knows and revocation ends, and which this API does not accept.
func TestResourceGivesJWT(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	c, other := acme.oauthClient(t, "writer"), acme.oauthClient(t, "reader")
	const resource = "https://mcp.example/a?b=c"
	answer := c.asks(t, []string{"resource", resource})
	token := answer.gets(200, `{"access_token":"<token>","token_type":"bearer","expires_in":"<number>","scope":"writer"}`).str("access_token")
	header, claims := decoded(t, token, 0), decoded(t, token, 1)
	if header["typ"] != "at+jwt" || header["alg"] != "ES256" {
		t.Errorf("header %v", header)
	}
	for name, want := range map[string]any{
		"iss": s.url + "/o/acme", "aud": resource, "sub": c.clientID, "client_id": c.clientID, "scope": "writer", "org": "acme",
	} {
		if claims[name] != want {
			t.Errorf("%s is %v", name, claims[name])
		}
	}
	s.anyone().do(t, "GET /o/acme/jwks", "").contains(header["kid"].(string))
	acme.with(token).do(t, "GET /v1/company", "").status(401)
	about := func(what, token string, as oauthClient) *reply {
		return s.anyone().about(t, "acme", what, token, as.basic())
	}
	about("introspect", token, other).gets(200, `{"active":true,"iss":"`+s.url+`/o/acme","sub":"`+c.clientID+`","aud":"`+resource+`","client_id":"`+c.clientID+`","org":"acme","scope":"writer","token_type":"Bearer","iat":"<number>","exp":"<number>","jti":"<uuid>"}`)
	zoo.about(t, "zoo", "introspect", token).gets(200, inactive)
	zoo.about(t, "zoo", "revoke", token).gets(200, `{}`)
	about("introspect", tampered(token), other).gets(200, inactive)
	about("introspect", acme.do(t, "POST /v1/agents/register", `{"agentId":"x"}`).str("svid"), other).gets(200, inactive)
	ofAgent := acme.do(t, "POST /v1/agents/x/token", `{"audience":"https://mcp.example"}`).status(201).str("token")
	// it says who the agent is, and is no access token
	about("introspect", ofAgent, other).gets(200, inactive)
	about("revoke", token, other).gets(400, `{"error":"unauthorized_client","error_description":"…"}`)
	about("introspect", token, other).contains(`"active":true`)
	about("revoke", token, c).gets(200, `{}`)
	about("introspect", token, other).gets(200, inactive)
	about("revoke", token, c).gets(200, `{}`)

	several := c.asks(t, []string{"resource", resource, "resource", "https://other.example", "scope", "reader"}).status(200)
	if got := decoded(t, several.str("access_token"), 1); len(got["aud"].([]any)) != 2 || got["scope"] != "reader" {
		t.Errorf("claims %v", got)
	}
	gone := c.asks(t, []string{"resource", resource}).str("access_token")
	acme.do(t, "DELETE /v1/oauth/clients/"+c.clientID, "").status(200)
	about("introspect", gone, other).gets(200, inactive)

	const invalid = `{"error":"invalid_target","error_description":"…"}`
	nine := []string{}
	for range 9 {
		nine = append(nine, "resource", resource)
	}
	for _, wrong := range [][]string{
		{"resource", "http://mcp.example"}, {"resource", "mcp.example"}, {"resource", "https://mcp.example/#a"}, {"resource", "https://mcp.example/#"},
		{"resource", "https://"}, {"resource", "https://a@mcp.example"}, {"resource", "urn:x"}, {"resource", "https://mcp.example/ä"},
		{"resource", "https://mcp.example", "resource", "x"}, {"resource", "https://mcp.example/" + strings.Repeat("a", 1024)}, nine,
	} {
		other.asks(t, wrong).gets(400, invalid)
	}
	other.asks(t, []string{"resource", resource, "scope", "writer"}).gets(400, `{"error":"invalid_scope","error_description":"…"}`)
	other.asks(t, []string{"scope", "reader", "scope", "reader"}).gets(400, `{"error":"invalid_request","error_description":"…"}`)
}

// An agent's JWT names its agent, and is bound where a proof came; it counts no more when the key
// is revoked.
func TestResourceOfAgents(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.ES256)
	text, err := assertion.Make(t.Context(), bot.key, bot.spiffe(), s.url+"/o/acme", time.Now())
	must.OK(t, err)
	body := oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text, "resource", "https://mcp.example")
	ask := func() *reply {
		return bot.anyone().do(t, "POST /o/acme/token", body, formType, bot.proof(t, bot.key, "POST", "/o/acme/token", ""))
	}
	token := ask().gets(200, `{"access_token":"<token>","token_type":"DPoP","expires_in":"<number>","scope":"agent"}`).str("access_token")
	ask().gets(401, `{"error":"invalid_client","error_description":"…used before"}`)
	if claims := decoded(t, token, 1); claims["sub"] != bot.spiffe() || claims["agent_id"] != "bot" || claims["cnf"].(map[string]any)["jkt"] != bot.thumbprint() {
		t.Errorf("claims %v", claims)
	}
	acme.about(t, "acme", "introspect", token).has(`{"active":true,"token_type":"DPoP","cnf":{"jkt":"` + bot.thumbprint() + `"},"agent_id":"bot"}`)
	acme.do(t, "POST /v1/agents/bot/disable", "").status(200)
	acme.about(t, "acme", "introspect", token).gets(200, inactive)
	acme.do(t, "POST /v1/agents/bot/enable", "").status(200)
	acme.about(t, "acme", "introspect", token).has(`{"active":true}`)
	acme.do(t, "DELETE "+bot.keys()+"/"+bot.thumbprint(), "").status(200)
	acme.about(t, "acme", "introspect", token).gets(200, inactive)
}

// A client that follows the resource metadata of this API gets a token that it accepts: for the
// resource and from the issuer that the metadata names. Introspection knows the token as a JWT of
// that issuer, and the API accepts it for as long as introspection calls it active.
func TestResourceOfMetadataOpensAPI(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	metadata := s.anyone().do(t, "GET /.well-known/oauth-protected-resource/o/acme", "").status(200)
	whole := s.anyone().do(t, "GET /.well-known/oauth-protected-resource", "").str("resource")
	c := acme.oauthClient(t, "writer")
	at := "POST " + strings.TrimPrefix(metadata.str("authorization_servers", 0), s.url) + "/token"
	asks := func(params ...string) *reply {
		params = append([]string{"grant_type", "client_credentials", "client_id", c.clientID, "client_secret", c.secret}, params...)
		return s.anyone().do(t, at, oauthForm(params...), formType)
	}
	for _, resource := range []string{metadata.str("resource"), whole, whole + "/"} {
		token := asks("resource", resource).gets(200, `{"access_token":"<token>","token_type":"bearer","expires_in":"<number>","scope":"writer"}`).str("access_token")
		if header, claims := decoded(t, token, 0), decoded(t, token, 1); header["typ"] != "at+jwt" || claims["aud"] != resource || claims["iss"] != acme.issuer() {
			t.Errorf("%v %v", header, claims)
		}
		acme.with(token).do(t, "GET /v1/company", "").status(200)
		acme.with(token).do(t, "POST /v1/attest", attestBody("a", "1", "")).status(201)
		acme.with(token).do(t, "POST /v1/keys", "").status(403)
		acme.with(tampered(token)).do(t, "GET /v1/company", "").status(401)
		acme.about(t, "acme", "introspect", token).has(`{"active":true,"client_id":"` + c.clientID + `","scope":"writer"}`)
	}
	own := metadata.str("resource")
	reader := acme.with(asks("resource", own, "scope", "reader").has(`{"scope":"reader"}`).str("access_token"))
	reader.do(t, "GET /v1/company", "").status(200)
	reader.do(t, "POST /v1/attest", attestBody("a", "1", "")).status(403)

	// what others have been handed too, and what another company's part is named, opens nothing
	const invalid = `{"error":"invalid_target","error_description":"…"}`
	// the resource is of http here
	asks("resource", own, "resource", "https://mcp.example").gets(400, invalid)
	asks("resource", zoo.issuer()).gets(400, invalid)
	public := start(t, func(c *server.Config) { c.BaseURL = "https://attest.example" })
	both := public.company(t, "acme").oauthClient(t, "admin").asks(t, []string{"resource", "https://attest.example/o/acme", "resource", "https://mcp.example"}).status(200)
	public.anyone().with(both.str("access_token")).do(t, "GET /v1/company", "").status(401)

	// with a revocation, a client or a key of the issuer it ends, and so do its streams
	for _, end := range map[string]func(token string, of oauthClient){
		"revoked":        func(token string, _ oauthClient) { acme.about(t, "acme", "revoke", token).status(200) },
		"without client": func(_ string, of oauthClient) { acme.do(t, "DELETE /v1/oauth/clients/"+of.clientID, "").status(200) },
		"compromised": func(string, oauthClient) {
			acme.do(t, "POST /v1/companies/rotate-keys", `{"compromised":true}`).status(200)
		},
	} {
		of := acme.oauthClient(t, "reader")
		token := of.asks(t, []string{"resource", own}).status(200).str("access_token")
		acme.with(token).do(t, "GET /v1/company", "").status(200)
		stream := acme.with(token).listen(t)
		end(token, of)
		acme.with(token).do(t, "GET /v1/company", "").status(401)
		acme.about(t, "acme", "introspect", token).gets(200, inactive)
		stream.ended()
	}
}

// The same holds of an agent by a key of its own, whose token is bound to that, and of a workload
// with an identity of its own, which gets the token that it gets without a resource.
func TestResourceOfMetadataOpensAPIToAgents(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme := s.company(t, "acme")
	bot := acme.signer(t, "bot", jose.ES256)
	text, err := assertion.Make(t.Context(), bot.key, bot.spiffe(), acme.issuer(), time.Now())
	must.OK(t, err)
	body := oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text, "resource", acme.issuer())
	token := bot.anyone().do(t, "POST /o/acme/token", body, formType, bot.proof(t, bot.key, "POST", "/o/acme/token", "")).
		gets(200, `{"access_token":"<token>","token_type":"DPoP","expires_in":"<number>","scope":"agent"}`).str("access_token")
	attest := func(headers ...string) *reply {
		return bot.anyone().do(t, "POST /v1/attest", attestBody("bot", "1", ""), headers...)
	}
	attest("Authorization: DPoP "+token, bot.proof(t, bot.key, "POST", "/v1/attest", token)).status(201)
	attest("Authorization: Bearer " + token).status(401)
	acme.do(t, "DELETE "+bot.keys()+"/"+bot.thumbprint(), "").status(200)
	attest("Authorization: DPoP "+token, bot.proof(t, bot.key, "POST", "/v1/attest", token)).status(401)

	i := newIssuer(t)
	acme.do(t, "POST /v1/federation", federationBody("ci", i.URL, acme.issuer(), ciRules)).status(201)
	federates := func(resource string) *reply {
		return s.anyone().do(t, "POST /o/acme/token", oauthForm("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer",
			"assertion", i.token(t, acme.issuer(), nil), "resource", resource), formType)
	}
	workload := acme.with(federates(acme.issuer()).gets(200, `{"access_token":"oauth_<secret>","token_type":"Bearer","expires_in":"<number>"}`).str("access_token"))
	workload.do(t, "POST /v1/attest", attestBody("ci-octo-org__octo-repo", "1", "")).status(201)
	federates("https://mcp.example").gets(400, `{"error":"invalid_target","error_description":"…"}`)
}
