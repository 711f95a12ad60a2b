package mcpserver_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
)

// A token that is bound to a key counts with a new proof of that key for this request, and not
// otherwise: RFC 9449 §4.3, row by row.
func TestBoundAccessTokens(t *testing.T) {
	t.Parallel()
	i := newIssuers(t)
	h := i.protected(t, resource, nowhere)
	key, other := josetest.PrivateKey(t, jose.ES256), josetest.PrivateKey(t, jose.EdDSA)
	bound := func(jkt string) string {
		d := i.sound()
		d.claims["cnf"] = map[string]string{"jkt": jkt}
		return i.sign(t, d)
	}
	token, unbound := bound(key.Key().Thumbprint), i.sign(t, i.sound())
	now := time.Now()
	proof := func(k *jose.PrivateKey, r dpop.Request, at time.Time) string {
		made, err := dpop.Make(t.Context(), k, r, at)
		must(t, err)
		return made
	}
	forge := func(header string, claims map[string]any) string {
		jwk := josetest.Raw(key.Key().JWK())
		all := map[string]any{"typ": "dpop+jwt", "alg": "ES256", "jwk": jwk}
		if header == "typ" {
			all["typ"] = "JWT"
		} else if header != "" {
			all[header] = josetest.Raw(`"x"`)
		}
		return josetest.Forge(t, key, josetest.Marshal(t, all), josetest.Marshal(t, claims))
	}
	sum := sha256.Sum256([]byte(token))
	claims := func(name string, value any) map[string]any {
		c := map[string]any{"jti": fmt.Sprint(name, value), "htm": "POST", "htu": resource, "iat": now.Unix(), "ath": josetest.Encode(sum[:])}
		if c[name] = value; value == nil {
			delete(c, name)
		}
		return c
	}
	good := dpop.Request{Method: "POST", URL: resource, AccessToken: token}
	used := proof(key, good, now)
	for _, c := range []struct {
		name, token string
		want        string // code of the challenge, "" for an accepted request
		proofs      []string
	}{
		{"a new proof", token, "", []string{used}},
		{"another new proof", token, "", []string{proof(key, good, now)}},
		{"in full", token, "", []string{forge("", claims("x", 1))}},
		{"the same proof again", token, "invalid_dpop_proof", []string{used}},
		{"no proof", token, "invalid_dpop_proof", nil},
		{"two proofs", token, "invalid_dpop_proof", []string{proof(key, good, now), proof(key, good, now)}},
		{"no JWT", token, "invalid_dpop_proof", []string{"x"}},
		{"typ", token, "invalid_dpop_proof", []string{forge("typ", claims("x", 2))}},
		{"alg", token, "invalid_dpop_proof", []string{forge("alg", claims("x", 3))}},
		{"another key", token, "invalid_dpop_proof", []string{proof(other, good, now)}},
		{"another signature", token, "invalid_dpop_proof", []string{used[:strings.LastIndex(used, ".")+1] + strings.Repeat("A", 86)}},
		{"htm", token, "invalid_dpop_proof", []string{forge("", claims("htm", "GET"))}},
		{"htu of another server", token, "invalid_dpop_proof", []string{forge("", claims("htu", "https://other.example/mcp"))}},
		{"htu behind the proxy", token, "invalid_dpop_proof", []string{forge("", claims("htu", "http://"+listens+"/mcp"))}},
		{"iat long ago", token, "invalid_dpop_proof", []string{proof(key, good, now.Add(-dpop.Window-time.Minute))}},
		{"iat ahead", token, "invalid_dpop_proof", []string{proof(key, good, now.Add(dpop.Window+time.Minute))}},
		{"no iat", token, "invalid_dpop_proof", []string{forge("", claims("iat", nil))}},
		{"no jti", token, "invalid_dpop_proof", []string{forge("", claims("jti", nil))}},
		{"no ath", token, "invalid_dpop_proof", []string{forge("", claims("ath", nil))}},
		{"ath of another token", token, "invalid_dpop_proof", []string{proof(key, dpop.Request{Method: "POST", URL: resource, AccessToken: unbound}, now)}},
		{"a token that is bound to another key", bound(other.Key().Thumbprint), "invalid_dpop_proof", []string{proof(key, good, now)}},
		{"a token that is bound to no key", unbound, "invalid_token", []string{proof(key, dpop.Request{Method: "POST", URL: resource, AccessToken: unbound}, now)}},
	} {
		answer, text := post(h, ping, "", func(r *http.Request) {
			r.Header.Set("Authorization", "DPoP "+c.token)
			r.Header["Dpop"] = c.proofs
		})
		got := answer.Header.Get("WWW-Authenticate")
		switch {
		case c.want == "" && answer.StatusCode == 200:
		case c.want != "" && answer.StatusCode == 401 && strings.HasPrefix(got, `DPoP resource_metadata="https://mcp.example`+metadataPath+`", error="`+c.want+`"`) &&
			strings.Count(got, `"`) == 8:
		default:
			t.Errorf("%s: %d %s, %s", c.name, answer.StatusCode, text, got)
		}
	}
	answer, _ := post(h, ping, token, func(r *http.Request) { r.Header.Set("DPoP", proof(key, good, now)) })
	if got := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != 401 || !strings.HasPrefix(got, "DPoP ") {
		t.Errorf("a bound token as Bearer: %d %s", answer.StatusCode, got)
	}
}
