package server_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/server"
)

const hour = "Cache-Control: public, max-age=3600"

func TestPublicKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme := s.company(t, "acme")
	them := s.anyone()
	const missing = `{"error":"Missing required query parameter: companyId"}`
	key := acme.publicKey(t)
	der, err := x509.MarshalPKIXPublicKey(key)
	must.OK(t, err)
	sum := sha256.Sum256(der)
	kid := hex.EncodeToString(sum[:])[:16]
	jwk := `{"kty":"OKP","crv":"Ed25519","x":"` + b64.EncodeToString(key) + `","kid":"` + kid + `","alg":"EdDSA","use":"sig"}`
	print := "SHA256:" + b64.EncodeToString(sum[:])
	for _, path := range []string{"/v1/ca/public-key", "/v1/ca/well-known"} {
		table(t, []row{
			{does: path + " without a company", as: them, call: "GET " + path, status: 400, gets: missing},
			{does: path + " with an empty one", as: them, call: "GET " + path + "?companyId=", status: 400, gets: missing},
			{does: path + " with one in another spelling", as: them, call: "GET " + path + "?companyid=acme", status: 400, gets: missing},
			{does: path + " of an unknown company", as: them, call: "GET " + path + "?companyId=globex", status: 404, gets: `{"error":"Company not found: globex"}`},
			{does: path + " of what is no company's name", as: them, call: "GET " + path + "?companyId=a%2Fb%20%C3%BC", status: 404, gets: `{"error":"Company not found: a/b ü"}`},
		})
	}
	table(t, []row{
		{
			does: "a company's key in every form", as: them, call: "GET /v1/ca/public-key?companyId=acme", status: 200, sets: []string{hour},
			gets: `{"companyId":"acme","spiffeId":"` + orgID + `","kid":"` + kid + `","pem":"<pem>","jwk":` + jwk + `,"fingerprint":"` + print + `","keys":[` + jwk + `]}`,
		},
		{
			does: "the discovery document", as: them, call: "GET /v1/ca/well-known?companyId=acme", status: 200, sets: []string{hour},
			gets: `{"issuer":"spiffe://attestd.local/ca","jwks_uri":"` + s.url + `/v1/ca/public-key?companyId=acme","token_endpoint":"` + s.url + `/v1/oauth/token",
				"id_token_signing_alg_values_supported":["EdDSA"],"response_types_supported":["token"],
				"token_endpoint_auth_methods_supported":["client_secret_post","client_secret_basic"],
				"company_id":"acme","company_spiffe_id":"` + orgID + `","trust_domain":"attestd.local","algorithms_supported":["EdDSA"],"key_type":"OKP","curve":"Ed25519",
				"kid":"` + kid + `","fingerprint":"` + print + `","keys":[` + jwk + `],
				"passport_format":{"version":1,"token_type":"CAP+JWT","audience":"service:passport:v1","claims_namespace":"service","scope_format":"category:name","scope_wildcards_supported":true},
				"service_version":"1.2.3-test"}`,
		},
	})
}

// Without a configured address, jwks_uri is derived from the request and leads to the key set.
func TestDiscoveredAddress(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	s.company(t, "acme")
	const path, query = "GET /v1/ca/well-known?companyId=acme", "/v1/ca/public-key?companyId=acme"
	for _, c := range []struct {
		want    string
		headers []string
	}{
		{"http://id.example:8443", []string{"Host: id.example:8443"}},
		{"https://id.example", []string{"Host: id.example", "X-Forwarded-Proto: https"}},
		{"http://id.example", []string{"Host: id.example", "X-Forwarded-Proto: http"}},
		{"http://id.example", []string{"Host: id.example", "X-Forwarded-Proto: javascript"}},
	} {
		r := s.anyone().do(t, path, "", c.headers...).status(200)
		if uri := r.str("jwks_uri"); uri != c.want+query {
			t.Errorf("%v: jwks_uri %s, want %s", c.headers, uri, c.want+query)
		}
	}
	uri := s.anyone().do(t, path, "").str("jwks_uri")
	var set struct{ Keys []map[string]string }
	s.anyone().do(t, "GET "+uri[len(s.url):], "").status(200).into(&set)
	if len(set.Keys) != 1 || set.Keys[0]["kty"] != "OKP" {
		t.Errorf("no key set at %s: %v", uri, set)
	}

	configured := start(t, func(c *server.Config) { c.BaseURL = "https://public.example/attestd/" })
	configured.company(t, "acme")
	r := configured.anyone().do(t, path, "", "Host: evil.example", "X-Forwarded-Proto: http").status(200)
	if uri := r.str("jwks_uri"); uri != "https://public.example/attestd"+query {
		t.Errorf("jwks_uri %s does not begin with the configured address", uri)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.anyone().do(t, "GET /v1/health", "").gets(200, `{"status":"ok"}`)
	s.anyone().with("svc_what-is-this-anyway").do(t, "GET /v1/health", "").gets(200, `{"status":"ok"}`)
}

// The served reference is web/openapi.yaml, unchanged.
func TestOpenAPIIsServed(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	t.Parallel()
	s := start(t)
	r := s.anyone().do(t, "GET /v1/openapi.json", "").status(200).sets("Content-Type: application/json", hour)
	yaml, err := os.ReadFile("../web/openapi.yaml")
	must.OK(t, err)
	want, err := openapi3.NewLoader().LoadFromData(yaml)
	must.OK(t, err)
	got, err := openapi3.NewLoader().LoadFromData(r.raw)
	must.OK(t, err)
	if a, b := canonical(t, toJSON(t, got)), canonical(t, toJSON(t, want)); a != b {
		t.Error("what is served differs from web/openapi.yaml")
	}
	var head struct{ OpenAPI string }
	must.OK(t, json.Unmarshal(r.raw, &head))
	if head.OpenAPI != "3.1.0" {
		t.Errorf("openapi %q", head.OpenAPI)
	}
}
