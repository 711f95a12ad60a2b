package dpop_test

import (
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// RFC 9449 §4.1 and §7.1: its two proofs pass at their time, for their requests and their key.
func TestRFC9449(t *testing.T) {
	t.Parallel()
	const head = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMi" +
		"LCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19."
	const thumbprint = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" // §6.1
	for _, test := range []struct {
		name, proof, id string
		request         dpop.Request
		iat             int64
	}{
		{
			"token request", head + "eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ." +
				"2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg",
			"-BwC3ESc6acc2lTc", dpop.Request{Method: "POST", URL: "https://server.example.com/token"}, 1562262616,
		},
		{
			"protected resource", head + "eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwi" +
				"YXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA",
			"e1j3V_bKic8-LAEB", dpop.Request{
				Method: "GET", URL: "https://resource.example.org/protectedresource", AccessToken: "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU",
			}, 1562262618,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := time.Unix(test.iat, 0)
			p, err := dpop.Check(test.proof, test.request, thumbprint, at)
			must.OK(t, err)
			if p.ID != test.id || !p.IssuedAt.Equal(at) || p.Key.Thumbprint != thumbprint || p.Key.Algorithm != jose.ES256 {
				t.Errorf("%+v", p)
			}
			for name, wrong := range map[string]dpop.Request{
				"htm": {Method: "PUT", URL: test.request.URL, AccessToken: test.request.AccessToken},
				"htu": {Method: test.request.Method, URL: test.request.URL + "/", AccessToken: test.request.AccessToken},
				"ath": {Method: test.request.Method, URL: test.request.URL, AccessToken: "another"},
			} {
				_, err := dpop.Check(test.proof, wrong, thumbprint, at)
				if !strings.Contains(refusal(t, err), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// Every check refuses by itself what is sound otherwise.
func TestRefusals(t *testing.T) {
	t.Parallel()
	header := func(name string, value any) func(draft) { return func(d draft) { d.header[name] = value } }
	claim := func(name string, value any) func(draft) { return func(d draft) { d.claims[name] = value } }
	without := func(name string) func(draft) { return func(d draft) { delete(d.claims, name) } }
	other := josetest.PrivateKey(t, jose.EdDSA).Key()
	for _, test := range []struct {
		name, want string // want "" is accepted
		spoil      func(draft)
	}{
		{"sound", "", func(draft) {}},
		{"typ JWT", "typ", header("typ", "JWT")},
		{"typ in another case", "typ", header("typ", "DPoP+JWT")},
		{"typ as a media type", "typ", header("typ", "application/dpop+jwt")},
		{"typ of a statement", "typ", header("typ", "agent-statement+jwt")},
		{"no typ", "typ", func(d draft) { delete(d.header, "typ") }},
		{"no jwk", "jwk", func(d draft) { delete(d.header, "jwk") }},
		{"jwk null", "jwk", header("jwk", nil)},
		{"jwk a string", "jwk", header("jwk", "spoilt")},
		{"jwk of RSA", "jwk", header("jwk", object{"kty": "RSA", "n": "spoilt", "e": "AQAB"})},
		{"jwk private", "private", func(d draft) { d.header["jwk"] = josetest.Raw(d.key.JWK()) }},
		{"jwk of another key", "signed", header("jwk", other)},
		{"alg none", "signed", header("alg", "none")},
		{"alg HS256", "signed", header("alg", "HS256")},
		{"alg of another kind", "signed", header("alg", "EdDSA")},
		{"no alg", "signed", func(d draft) { delete(d.header, "alg") }},
		{"crit", "not allowed", header("crit", []string{"spoilt"})},
		{"jku", "not allowed", header("jku", "https://spoilt.example/")},
		{"kid", "", header("kid", "a name of its own")},
		{"an unknown header", "", header("cty", "spoilt")},
		{"no jti", "jti", without("jti")},
		{"jti empty", "jti", claim("jti", "")},
		{"jti a number", "jti", claim("jti", 1)},
		{"jti of 128", "", claim("jti", strings.Repeat("~", 128))},
		{"jti of 129", "jti", claim("jti", strings.Repeat("j", 129))},
		{"jti with a space", "jti", claim("jti", "a b")},
		{"jti with a control", "jti", claim("jti", "a\x7f")},
		{"jti beyond ASCII", "jti", claim("jti", "é")},
		{"no htm", "htm", without("htm")},
		{"another htm", "htm", claim("htm", "GET")},
		{"htm in another case", "htm", claim("htm", "post")},
		{"htm a list", "htm", claim("htm", []string{"POST"})},
		{"no htu", "htu", without("htu")},
		{"another htu", "htu", claim("htu", request.URL+"/batch")},
		{"htu a path", "htu", claim("htu", "/v1/attest")},
		{"htu null", "htu", claim("htu", nil)},
		{"no iat", "iat", without("iat")},
		{"iat a string", "iat", claim("iat", "1772366400")},
		{"iat below 0", "iat", claim("iat", -1)},
		{"iat after the year 9999", "iat", claim("iat", 253402300800)},
		{"iat beyond all doubles", "iat", claim("iat", josetest.Raw("1e999"))},
		{"iat in milliseconds", "iat", claim("iat", now.UnixMilli())},
		{"5 minutes ago", "", claim("iat", now.Unix()-300)},
		{"a second more ago", "301 s ago", claim("iat", now.Unix()-301)},
		{"5 minutes ahead", "", claim("iat", now.Unix()+300)},
		{"a second more ahead", "301 s ahead", claim("iat", now.Unix()+301)},
		{"a fraction of a second", "", claim("iat", float64(now.Unix())+0.5)},
		{"expired", "exp", claim("exp", now.Unix())},
		{"not expired", "", claim("exp", now.Unix()+1)},
		{"exp a string", "exp", claim("exp", "spoilt")},
		{"not valid yet", "nbf", claim("nbf", now.Unix()+301)},
		{"valid", "", claim("nbf", now.Unix()+300)},
		{"nbf null", "nbf", claim("nbf", nil)},
		{"no ath", "ath", without("ath")},
		{"ath empty", "ath", claim("ath", "")},
		{"ath of another token", "ath", claim("ath", athOf("another"))},
		{"ath with padding", "ath", claim("ath", athOf(request.AccessToken)+"=")},
		{"ath a list", "ath", claim("ath", []string{athOf(request.AccessToken)})},
		{"nonce", "", claim("nonce", "spoilt")},
		{"unknown claims", "", func(d draft) { d.claims["iss"], d.claims["aud"], d.claims["b"] = "spoilt", 1, object{"jti": 1} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := sound(t)
			test.spoil(d)
			_, err := dpop.Check(d.sign(t), request, d.key.Key().Thumbprint, now)
			if got := refusal(t, err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestRefusesClaimsThatAreNotStrict(t *testing.T) {
	t.Parallel()
	d := sound(t)
	for _, claims := range []string{
		"", "null", "[]", `{"jti":"a","jti":"b"}`, `{"jti":"a","\u006ati":"b"}`, `{}{}`, string(josetest.Marshal(t, d.claims)) + " x",
		strings.Replace(string(josetest.Marshal(t, d.claims)), "{", `{"spoilt":{"a":1,"a":2},`, 1),
	} {
		_, err := dpop.Check(josetest.Forge(t, d.key, josetest.Marshal(t, d.header), []byte(claims)), request, "", now)
		if !strings.Contains(refusal(t, err), "claims are not") {
			t.Errorf("%s: %v", claims, err)
		}
	}
	long := d.sign(t) + strings.Repeat("A", dpop.MaxSize)
	if _, err := dpop.Check(long, request, "", now); !strings.Contains(refusal(t, err), "longer") {
		t.Errorf("%v", err)
	}
}

// A proof of another key does not serve a bound token; without a binding any key does.
func TestProofIsBoundToItsKey(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		mine, err := jose.GenerateKey(algorithm)
		must.OK(t, err)
		proof, err := dpop.Make(t.Context(), mine, request, now)
		must.OK(t, err)
		p, err := dpop.Check(proof, request, mine.Key().Thumbprint, now.Add(time.Minute))
		must.OK(t, err)
		_, err = dpop.Check(proof, request, "", now)
		must.OK(t, err)
		_, err = dpop.Check(proof, request, josetest.PrivateKey(t, algorithm).Key().Thumbprint, now)
		if !strings.Contains(refusal(t, err), "bound") {
			t.Errorf("%v", err)
		}
		again, err := dpop.Make(t.Context(), mine, request, now)
		must.OK(t, err)
		if q, err := dpop.Check(again, request, "", now); err != nil || q.ID == p.ID {
			t.Errorf("two proofs have the same jti, or %v", err)
		}
		// Without a token ath is neither written nor demanded.
		bare := dpop.Request{Method: request.Method, URL: request.URL}
		proof, err = dpop.Make(t.Context(), mine, bare, now)
		must.OK(t, err)
		_, err = dpop.Check(proof, bare, "", now)
		must.OK(t, err)
		if _, err = dpop.Check(proof, request, "", now); !strings.Contains(refusal(t, err), "no ath") {
			t.Errorf("%v", err)
		}
	}
	for _, r := range []dpop.Request{{Method: "GET", URL: "/v1"}, {URL: request.URL}, {}} {
		if _, err := dpop.Make(t.Context(), josetest.PrivateKey(t, jose.EdDSA), r, now); err == nil {
			t.Errorf("a proof for %+v", r)
		}
	}
}

// passes reports whether a proof with an htu passes for a request to url.
func passes(t testing.TB, htu, url string) bool {
	t.Helper()
	d := sound(t)
	d.claims["htu"] = htu
	_, err := dpop.Check(d.sign(t), dpop.Request{Method: "POST", URL: url, AccessToken: request.AccessToken}, "", now)
	if message := refusal(t, err); err != nil && !strings.Contains(message, "htu") {
		t.Fatal(err)
	}
	return err == nil
}

// RFC 3986 §6.2.2 and §6.2.3, and nothing beyond them.
func TestURLsAreComparedInNormalForm(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{"https://a.example/v1/attest", "https://a.example/v1/attest?q=1", "https://a.example/v1/attest#f", "https://a.example/v1/attest?q#f",
			"HTTPS://A.Example/v1/attest", "https://a.example:443/v1/attest", "https://a.example:/v1/attest", "https://a.example:0443/v1/attest",
			"https://a.example/v1/./attest", "https://a.example/v1/x/../attest", "https://a.example/../v1/attest", "https://a.example/%76%31/attest",
			"https://a.example/v1/%2e/attest", "https://a.example/v1/x/%2E%2e/attest", "https://%61.example/v1/attest"},
		{"http://a.example", "http://a.example/", "http://a.example:80", "http://a.example?q", "http://a.example/.", "http://a.example/.."},
		{"https://a.example:8443/a%2fb", "https://a.example:8443/a%2Fb"},
		{"https://a.example/%c3%a9~", "https://a.example/%C3%A9%7E"},
		{"http://[::1]:8080/v1", "http://[::1]:8080/v1"},
		{"http://[FE80::1]/v1", "http://[fe80::1]:80/v1"},
		{"https://a.example/A%20B", "https://a.example/A%20B?x"},
		{"https://a.example/a%252fb", "https://a.example/a%252fb"},
	} {
		for _, htu := range same {
			for _, url := range same {
				if !passes(t, htu, url) {
					t.Errorf("%s is not %s", htu, url)
				}
			}
		}
	}
	for _, pair := range [][2]string{
		{"https://a.example/v1", "http://a.example/v1"},
		{"https://a.example/v1", "https://b.example/v1"},
		{"https://a.example/v1", "https://a.example./v1"},
		{"https://a.example/v1", "https://a.example:8443/v1"},
		{"https://a.example/v1", "https://a.example:80/v1"},
		{"https://a.example/v1", "https://a.example/v1/"},
		{"https://a.example/v1", "https://a.example/V1"},
		{"https://a.example/v1", "https://a.example//v1"},
		{"https://a.example/a/b", "https://a.example/a%2Fb"},
		{"https://a.example/a%2e%2e%2fb", "https://a.example/b"},
		{"https://a.example/a%252fb", "https://a.example/a%2fb"},
		{"https://a.example/a%2541", "https://a.example/a%41"},
		{"https://a.example/a;b", "https://a.example/a"},
		{"https://a.example/a+b", "https://a.example/a%20b"},
		{"https://a.example/a%3Fb", "https://a.example/a?b"},
		{"https://kelvin.example/", "https://%E2%84%AAelvin.example/"},
	} {
		if passes(t, pair[0], pair[1]) || passes(t, pair[1], pair[0]) {
			t.Errorf("%s is taken for %s", pair[0], pair[1])
		}
	}
}

// What is no URL of a request matches nothing, itself neither.
func TestRefusesOddURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "/", "a.example/v1", "//a.example/v1", "https:", "https://", "https:///v1", "https:a.example", "https://:443/v1", "ftp://a.example/v1",
		"wss://a.example/v1", "https://user@a.example/v1", "https://user:spoilt@a.example/v1", "https://@a.example/", "https://a.example:99999/", "https://a.example:x/",
		"https://a.example/%", "https://a.example/%4", "https://a.example/%zz", "https://a.example/%+1", "https://a.example/a b", "https://a.example/\n",
		"https://a.example/é", "https://é.example/", "https://a.example\\v1", "https://[::1/", "https://a.example/" + strings.Repeat("a", dpop.MaxURL),
		"https://%E2%84%AAelvin.example/", "https://a.example%00/", "https://a%25b.example/", "http://[fe80::1%25eth0]/", "javascript:alert(1)",
	} {
		if passes(t, url, url) {
			t.Errorf("%q is accepted", url)
		}
	}
}
