package server_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/crypto/jose"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
	"attestd/server/stream"
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
	s.anyone().do(t, "POST /v1/keys", "").status(401).sets("WWW-Authenticate: Bearer …")

	public := start(t, func(c *server.Config) { c.BaseURL = "https://attest.example" })
	public.company(t, "acme")
	public.anyone().do(t, "GET /.well-known/oauth-protected-resource/o/acme", "").has(`{"resource":"https://attest.example/o/acme"}`)
}

// Every route that refuses a credential, or the lack of one, names the metadata in its challenge:
// without a credential these alone, with one after the error and the scope that would do.
func TestEveryRefusalNamesItsMetadata(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t, func(c *server.Config) { c.Stream = stream.Authenticated })
	acme := s.company(t, "acme")
	client, key := acme.oauthClient(t, "admin"), newKey(t, jose.EdDSA)
	bound := client.asks(t, nil, signer{caller: acme}.proof(t, key, "POST", "/v1/oauth/token", "")).str("access_token")
	doc, err := openapi3.NewLoader().LoadFromFile("../web/openapi.yaml")
	must.OK(t, err)
	const algs = `, algs="EdDSA Ed25519 ES256"`
	refused := map[string]int{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			role := fmt.Sprint(op.Extensions["x-role"])
			call := method + " " + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(strings.Replace(path, "{companyId}", "acme", 1), "0")
			metadata := `resource_metadata="` + s.url + `/.well-known/oauth-protected-resource`
			scope := `, scope="` + role + `", `
			var body string
			var form []string
			switch {
			case strings.HasPrefix(path, "/o/"):
				metadata, scope = metadata+"/o/acme", `, scope="admin", `
				body, form = oauthForm("token", "x"), []string{formType}
			case path == "/v1/ws":
				scope = `, scope="reader", `
			case role == "enrolling", role == "person":
				scope = ", "
			}
			metadata += `"`
			for does, want := range map[string][]string{
				"":                                       {"Bearer " + metadata},
				"Authorization: Basic Og==":              {"Bearer " + metadata},
				"Authorization: Bearer svc_x":            {`Bearer error="invalid_token"` + scope + metadata},
				"Authorization: Bearer ":                 {`Bearer error="invalid_token"` + scope + metadata},
				"Authorization: Bearer " + bound:         {`DPoP error="invalid_token"` + algs + scope + metadata},
				"Authorization: DPoP oauth_x":            {`DPoP error="invalid_token"` + algs + scope + metadata},
				"Authorization: DPoP " + bound:           {`DPoP error="invalid_dpop_proof"` + algs + scope + metadata},
				"Authorization: DPoP " + acme.credential: {`DPoP error="invalid_token"` + algs + scope + metadata},
			} {
				headers := append(form, handshake...)
				if does != "" {
					headers = append(headers, does)
				}
				answer := s.anyone().do(t, call, body, headers...)
				if answer.code != 401 {
					malformed := strings.HasPrefix(path, "/o/") && strings.Contains(does, "Basic")
					if public := role == "public" && path != "/v1/ws" && path != "/o/{companyId}/introspect"; !public && !malformed {
						t.Errorf("%s with %q: %d", call, does, answer.code)
					}
					continue
				}
				refused[op.OperationID]++
				if strings.HasPrefix(path, "/o/") && !strings.Contains(does, "Bearer") && !strings.Contains(does, "DPoP") {
					want = append([]string{`Basic realm="oauth", charset="UTF-8"`}, want...)
				}
				if got := answer.header.Values("WWW-Authenticate"); !slices.Equal(got, want) {
					t.Errorf("%s with %q: %q, want %q", call, does, got, want)
				}
			}
		}
	}
	if len(refused) < len(keyed) || refused["stream"] == 0 || refused["introspectToken"] == 0 {
		t.Errorf("%d operations have refused a credential", len(refused))
	}
}
