package dpop_test

import (
	"encoding/json"
	"strings"
	"testing"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// FuzzCheck holds that what passes has one of the test's keys, and nothing else panics.
func FuzzCheck(f *testing.F) {
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		proof, err := dpop.Make(f.Context(), josetest.PrivateKey(f, algorithm), request, now)
		must.OK(f, err)
		f.Add(proof)
	}
	f.Add("e30.e30.AA")
	f.Fuzz(func(t *testing.T, proof string) {
		p, err := dpop.Check(proof, request, "", now)
		if refusal(t, err) == "" && (p.Key == nil || p.ID == "") {
			t.Fatalf("%q passes as %+v", proof, p)
		}
	})
}

// FuzzClaims signs what it is given, to reach the code behind the signature. What passes says the
// same to encoding/json.
func FuzzClaims(f *testing.F) {
	d := sound(f)
	f.Add(josetest.Marshal(f, d.header), josetest.Marshal(f, d.claims))
	f.Add(josetest.Marshal(f, d.header), []byte(`{"jti":"a","htm":"POST","htu":"HTTPS://attestd.example:443/v1/./attest?q","iat":1772366400.5,"ath":"","exp":1,"nbf":2}`))
	f.Add([]byte(`{"typ":"dpop+jwt","alg":"ES256","jwk":{}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, header, claims []byte) {
		p, err := dpop.Check(josetest.Forge(t, d.key, header, claims), request, d.key.Key().Thumbprint, now)
		if refusal(t, err) != "" {
			return
		}
		var read map[string]any // which has names as they are, unlike a struct
		must.OK(t, json.Unmarshal(claims, &read))
		iat, _ := read["iat"].(float64)
		if distance := now.Sub(p.IssuedAt); distance > dpop.Window || -distance > dpop.Window || p.IssuedAt.Unix() != int64(iat) {
			t.Fatalf("%s is from %s", claims, p.IssuedAt)
		}
		if read["jti"] != p.ID || read["htm"] != request.Method || read["ath"] != athOf(request.AccessToken) {
			t.Fatalf("%s passes", claims)
		}
	})
}

// FuzzURL holds that the normal form of a URL, which Make writes, is its own normal form, has no
// query and no fragment, and keeps the scheme.
func FuzzURL(f *testing.F) {
	for _, url := range []string{
		"https://a.example/v1?q#f", "HTTP://[::1]:0080/%7e/../a%2fb", "https://a.example/a//b/./..", "https://user@a/", "http://a:80:80/", "https://a/;%3b", "https://%61/",
		"https://a/%2e%2e/%2E", "https://a/|", "http://a%25b/",
	} {
		f.Add(url)
	}
	p := josetest.PrivateKey(f, jose.EdDSA)
	f.Fuzz(func(t *testing.T, url string) {
		proof, err := dpop.Make(t.Context(), p, dpop.Request{Method: "GET", URL: url}, now)
		if refusal(t, err) != "" {
			return
		}
		_, err = dpop.Check(proof, dpop.Request{Method: "GET", URL: url}, "", now)
		if err != nil {
			t.Fatalf("%q: %v", url, err)
		}
		var read struct{ HTU string }
		must.OK(t, json.Unmarshal(undo(t, strings.Split(proof, ".")[1]), &read))
		if again, err := dpop.Make(t.Context(), p, dpop.Request{Method: "GET", URL: read.HTU}, now); err != nil {
			t.Fatalf("%q: its normal form %q is none: %v", url, read.HTU, err)
		} else if _, err := dpop.Check(again, dpop.Request{Method: "GET", URL: url}, "", now); err != nil {
			t.Fatalf("%q: its normal form %q changes: %v", url, read.HTU, err)
		}
		if strings.ContainsAny(read.HTU, "?#\\ ") || !strings.HasPrefix(strings.ToLower(url), read.HTU[:5]) {
			t.Fatalf("%q becomes %q", url, read.HTU)
		}
	})
}
