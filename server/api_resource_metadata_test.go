package server_test

import (
	"testing"

	"attestd/server"
)

// The API says as a resource who issues tokens for it (RFC 9728), and a refusal of a role names
// that and the scope that would do.
func TestProtectedResourceMetadata(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	const supports = `"scopes_supported":["admin","writer","reader","agent"],"bearer_methods_supported":["header"],"dpop_signing_alg_values_supported":["ES256","EdDSA","Ed25519"],"resource_name":"attestd"}`
	s.anyone().do(t, "GET /.well-known/oauth-protected-resource", "", "Origin: https://page.example").
		gets(200, `{"resource":"`+s.url+`",`+supports).sets("Access-Control-Allow-Origin: *", "Cache-Control: public, max-age=300")
	issuer := s.url + "/o/acme"
	s.anyone().do(t, "GET /.well-known/oauth-protected-resource/o/acme", "").
		gets(200, `{"resource":"`+issuer+`","authorization_servers":["`+issuer+`"],"jwks_uri":"`+issuer+`/jwks",`+supports)
	s.anyone().do(t, "GET /.well-known/oauth-protected-resource/o/ghost", "").status(404)
	reader := acme.with(acme.oauthClient(t, "admin").token(t, "scope", "reader"))
	challenge := func(scope string) string {
		return `WWW-Authenticate: Bearer error="insufficient_scope", scope="` + scope + `", resource_metadata="` + s.url + `/.well-known/oauth-protected-resource/o/acme"`
	}
	reader.do(t, "POST /v1/attest", attestBody("a", "1", "")).gets(403, `{"error":"…","code":"FORBIDDEN_ROLE"}`).sets(challenge("writer"))
	reader.do(t, "POST /v1/keys", "").status(403).sets(challenge("admin"))
	s.anyone().do(t, "POST /v1/keys", "").status(401).sets("WWW-Authenticate: Bearer")

	public := start(t, func(c *server.Config) { c.BaseURL = "https://attest.example" })
	public.company(t, "acme")
	public.anyone().do(t, "GET /.well-known/oauth-protected-resource/o/acme", "").has(`{"resource":"https://attest.example/o/acme"}`)
}
