package server_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

func jwksOf(keys ...string) string { return `{"jwks":{"keys":[` + strings.Join(keys, ",") + `]}}` }

func withKID(key *jose.PrivateKey, kid string) string {
	return strings.TrimSuffix(key.Key().JWK(), "}") + `,"kid":"` + kid + `","use":"sig"}`
}

// A client with keys of its own has no secret: it signs assertions (RFC 7523).
func TestClientSignsInWithItsKey(t *testing.T) {
	t.Parallel()
	s := start(t)
	acme, zoo := s.company(t, "acme"), s.company(t, "zoo")
	one, two, other := newKey(t, jose.EdDSA), newKey(t, jose.ES256), newKey(t, jose.ES256)
	made := acme.do(t, "POST /v1/oauth/clients", `{"role":"writer",`+jwksOf(withKID(one, "ci-1"), two.Key().JWK())[1:])
	id := made.gets(201, `{"clientId":"cc_…","companyId":"acme","createdAt":"<time>"}`).str("clientId")
	now := time.Now().Unix()
	signed := func(key *jose.PrivateKey, kid any, change map[string]any) string {
		header := map[string]any{"alg": key.Key().Algorithm, "typ": "JWT", "kid": kid}
		if kid == nil {
			delete(header, "kid")
		}
		claims := map[string]any{"iss": id, "sub": id, "aud": s.url + "/v1/oauth/token", "jti": newKey(t, jose.EdDSA).Key().Thumbprint, "exp": now + 60}
		for name, v := range change {
			if claims[name] = v; v == nil {
				delete(claims, name)
			}
		}
		return josetest.Forge(t, key, josetest.Marshal(t, header), josetest.Marshal(t, claims))
	}
	ask := func(text string, more ...string) *reply {
		params := append([]string{"grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text}, more...)
		return s.anyone().do(t, tokenCall, oauthForm(params...), formType)
	}
	const issued = `{"access_token":"oauth_<secret>","token_type":"…","expires_in":3600}`
	token := ask(signed(one, "ci-1", nil)).gets(200, issued).str("access_token")
	acme.with(token).do(t, "POST /v1/attest", attestBody("a", "1", "")).status(201)
	acme.with(token).do(t, "POST /v1/keys", "").status(403)
	ask(signed(two, nil, nil)).gets(200, issued)
	ask(signed(two, two.Key().Thumbprint, nil), "client_id", id, "scope", "reader").has(`{"scope":"reader"}`)
	ask(signed(one, "ci-1", map[string]any{"aud": []string{s.url + "/v1/oauth/token"}})).status(200)
	once := signed(one, "ci-1", nil)
	ask(once).status(200)
	// authlib makes assertions for an hour, which count once for as long
	hour := signed(one, "ci-1", map[string]any{"iat": now, "exp": now + 3600})
	ask(hour).gets(200, issued)
	ask(hour).gets(401, `{"error":"invalid_client","error_description":"…used before"}`)

	const refused = `{"error":"invalid_client","error_description":"…"}`
	for does, text := range map[string]string{
		"used before":              once,
		"another key":              signed(other, nil, nil),
		"another key of the name":  signed(other, "ci-1", nil),
		"a key by another's name":  signed(two, "ci-1", nil),
		"an unknown name":          signed(one, "ci-2", nil),
		"another client":           signed(one, "ci-1", map[string]any{"iss": "cc_x", "sub": "cc_x"}),
		"two subjects":             signed(one, "ci-1", map[string]any{"iss": "cc_x"}),
		"another audience":         signed(one, "ci-1", map[string]any{"aud": "https://elsewhere.example"}),
		"two audiences":            signed(one, "ci-1", map[string]any{"aud": []string{s.url + "/v1/oauth/token", "https://elsewhere.example"}}),
		"ended":                    signed(one, "ci-1", map[string]any{"exp": now - 1}),
		"no jti":                   signed(one, "ci-1", map[string]any{"jti": nil}),
		"a day":                    signed(one, "ci-1", map[string]any{"exp": now + 86400}),
		"changed":                  tampered(signed(one, "ci-1", nil)),
		"a client with a secret":   signed(one, "ci-1", map[string]any{"iss": acme.oauthClient(t, "admin").clientID}),
		"a client's, of no key":    signed(one, nil, map[string]any{"iss": acme.oauthClient(t, "admin").clientID, "sub": acme.oauthClient(t, "admin").clientID}),
		"the token of another app": signed(one, "ci-1", map[string]any{"aud": "spiffe://other/ca"}),
	} {
		t.Run(does, func(t *testing.T) { ask(text).gets(401, refused) })
	}
	ask(signed(one, "ci-1", nil), "client_id", "cc_x").gets(401, refused)
	ask(signed(one, "ci-1", nil), "client_secret", "x").gets(400, `{"error":"invalid_request","error_description":"…"}`)
	s.anyone().do(t, tokenCall, oauthForm("grant_type", "client_credentials", "client_id", id, "client_secret", "cs_"+strings.Repeat("A", 43)), formType).gets(401, `{"error":"invalid_client"}`)
	s.anyone().do(t, "POST /o/zoo/token", oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", signed(one, "ci-1", map[string]any{"aud": s.url + "/o/zoo"})), formType).gets(401, `{"error":"invalid_client"}`)
	_ = zoo

	// it is in the control log, and is deleted with the client
	acme.do(t, "GET /v1/records?log=control&action=oauth-client.created", "").contains(`"kid":"ci-1"`)
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
	acme.do(t, "DELETE /v1/oauth/clients/"+id, "").status(200)
	ask(signed(one, "ci-1", nil)).gets(401, refused)
	acme.with(token).do(t, "GET /v1/company", "").status(401)
}

// rsaJWK is the public JWK of an RSA key, with more members.
func rsaJWK(key *rsa.PrivateKey, more string) string {
	return fmt.Sprintf(`{"kty":"RSA","n":"%s","e":"AQAB"%s}`, base64.RawURLEncoding.EncodeToString(key.N.Bytes()), more)
}

var weakKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	return key
})

// A client signs in with an RSA key, by the algorithms that the metadata name and no other, whether
// the key was given or is fetched. An alg of the key counts.
func TestClientSignsInWithRSAKey(t *testing.T) {
	t.Parallel()
	s := start(t, privateFederation)
	acme := s.company(t, "acme")
	at := newIssuer(t)
	at.serves(rsaJWK(weakKey(), `,"kid":"weak"`), rsaJWK(issuerKey(), `,"kid":"r"`))
	made := acme.do(t, "POST /v1/oauth/clients", jwksOf(rsaJWK(issuerKey(), `,"kid":"r"`))).status(201)
	strict := acme.do(t, "POST /v1/oauth/clients", jwksOf(rsaJWK(issuerKey(), `,"kid":"r","alg":"PS256"`))).status(201).str("clientId")
	ask := func(id, algorithm, kid string, key *rsa.PrivateKey) *reply {
		t.Helper()
		signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(algorithm), Key: josev4.JSONWebKey{Key: key, KeyID: kid}}, nil)
		must.OK(t, err)
		text, err := josejwt.Signed(signer).Claims(claims{"iss": id, "sub": id, "aud": s.url + "/o/acme", "jti": rand.Text(), "exp": time.Now().Unix() + 60}).Serialize()
		must.OK(t, err)
		return s.anyone().do(t, "POST /o/acme/token", oauthForm("grant_type", "client_credentials", "client_assertion_type", assertion.Type, "client_assertion", text), formType)
	}
	taken := s.anyone().do(t, "GET /o/acme/.well-known/openid-configuration", "").at("token_endpoint_auth_signing_alg_values_supported").([]any)
	for _, id := range []string{made.str("clientId"), acme.fetchedClient(t, at.URL+"/jwks")} {
		for _, algorithm := range []string{"RS256", "PS256", "RS384", "RS512", "PS384", "PS512"} {
			want := 401
			if slices.Contains(taken, any(algorithm)) {
				want = 200
			}
			ask(id, algorithm, "r", issuerKey()).status(want)
		}
		if !slices.Contains(taken, any("RS256")) || !slices.Contains(taken, any("PS256")) {
			t.Errorf("the metadata name %v", taken)
		}
		ask(id, "RS256", "weak", weakKey()).gets(401, `{"error":"invalid_client","error_description":"client_assertion is signed with no key of a client"}`)
		ask(id, "RS256", "r", weakKey()).status(401)
	}
	ask(strict, "PS256", "r", issuerKey()).status(200)
	ask(strict, "RS256", "r", issuerKey()).status(401)
	acme.do(t, "GET /v1/verify?log=control", "").has(`{"valid":true}`)
}

// Keys are public ones, each once, of the kinds that are known.
func TestClientKeysAreChecked(t *testing.T) {
	t.Parallel()
	acme := start(t).company(t, "acme")
	key, next := newKey(t, jose.EdDSA), newKey(t, jose.ES256)
	jwk := key.Key().JWK()
	for does, body := range map[string]string{
		"no keys":         `{"jwks":{}}`,
		"an empty set":    jwksOf(),
		"nine":            jwksOf(jwk, jwk, jwk, jwk, jwk, jwk, jwk, jwk, jwk),
		"twice":           jwksOf(jwk, jwk),
		"one kid twice":   jwksOf(withKID(key, "a"), withKID(next, "a")),
		"a private key":   jwksOf(strings.TrimSuffix(jwk, "}") + `,"d":"AAAA"}`),
		"a secret":        jwksOf(`{"kty":"oct","k":"AAAA"}`),
		"a tiny RSA key":  jwksOf(`{"kty":"RSA","n":"AQAB","e":"AQAB"}`),
		"RSA of 1024":     jwksOf(rsaJWK(weakKey(), "")),
		"RSA, private":    jwksOf(rsaJWK(issuerKey(), `,"d":"AQAB"`)),
		"RSA for RS512":   jwksOf(rsaJWK(issuerKey(), `,"alg":"RS512"`)),
		"RSA as ES256":    jwksOf(rsaJWK(issuerKey(), `,"alg":"ES256"`)),
		"RSA twice":       jwksOf(rsaJWK(issuerKey(), ""), rsaJWK(issuerKey(), `,"alg":"RS256"`)),
		"P-384":           jwksOf(`{"kty":"EC","crv":"P-384","x":"AA","y":"AA"}`),
		"for encryption":  jwksOf(strings.TrimSuffix(jwk, "}") + `,"use":"enc"}`),
		"a kid that is 7": jwksOf(strings.TrimSuffix(jwk, "}") + `,"kid":7}`),
		"no object":       `{"jwks":[]}`,
		"misspelt":        `{"jwk":{"keys":[` + jwk + `]}}`,
		"text":            jwksOf(`"x"`),
	} {
		t.Run(does, func(t *testing.T) {
			acme.do(t, "POST /v1/oauth/clients", body).gets(400, `{"error":"…"}`)
		})
	}
	acme.do(t, "GET /v1/oauth/clients", "").gets(200, `{"clients":[]}`)
	acme.do(t, "POST /v1/oauth/clients", `{"jwks":null}`).has(`{"clientSecret":"…"}`)
}
