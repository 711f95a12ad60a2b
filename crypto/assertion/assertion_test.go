package assertion_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// What Make makes passes for each of its audiences, with a jti of its own, for a minute.
func TestMake(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		p, err := jose.GenerateKey(algorithm)
		must.OK(t, err)
		seen := map[string]bool{}
		for _, audience := range audiences {
			compact, err := assertion.Make(t.Context(), p, agent, audience, now)
			must.OK(t, err)
			a, err := check(compact, p.Key())
			must.OK(t, err)
			if a.Subject != agent || a.KeyID != p.Key().Thumbprint || !a.Ends.Equal(now.Add(time.Minute)) || seen[a.ID] || len(a.ID) < 22 {
				t.Errorf("%+v", a)
			}
			seen[a.ID] = true
			must.OK(t, a.Check(p.Key(), audiences, now.Add(-time.Minute)))
			must.OK(t, a.Check(p.Key(), audiences, now.Add(time.Minute-1)))
			if err := a.Check(p.Key(), audiences, now.Add(time.Minute)); refusal(t, err) != "client_assertion has ended" {
				t.Errorf("at its end: %v", err)
			}
			if err := a.Check(p.Key(), nil, now); !strings.Contains(refusal(t, err), "aud") {
				t.Errorf("without audiences: %v", err)
			}
		}
	}
}

// Every rule of RFC 7523 §3, of RFC 7519 and of the package refuses by itself what is sound
// otherwise.
func TestRefusals(t *testing.T) {
	t.Parallel()
	header := func(name string, value any) func(draft) { return func(d draft) { d.header[name] = value } }
	claim := func(name string, value any) func(draft) { return func(d draft) { d.claims[name] = value } }
	without := func(name string) func(draft) { return func(d draft) { delete(d.claims, name) } }
	subject := func(value any) func(draft) {
		return func(d draft) { d.claims["iss"], d.claims["sub"] = value, value }
	}
	other := josetest.PrivateKey(t, jose.ES256).Key()
	for _, test := range []struct {
		name, want string // want "" is accepted
		spoil      func(draft)
	}{
		{"sound", "", func(draft) {}},
		{"no typ", "", func(d draft) { delete(d.header, "typ") }},
		{"typ in lower case", "", header("typ", "jwt")},
		{"typ of RFC 7523bis", "", header("typ", "client-authentication+jwt")},
		{"typ of a DPoP proof", "typ", header("typ", "dpop+jwt")},
		{"typ of a statement", "typ", header("typ", "agent-statement+jwt")},
		{"typ of an endorsement", "typ", header("typ", "agent-key+jwt")},
		{"typ of an access token", "typ", header("typ", "at+jwt")},
		{"no kid", "kid", func(d draft) { delete(d.header, "kid") }},
		{"kid a number", "kid", header("kid", 1)},
		{"kid no thumbprint", "kid", header("kid", "spoilt")},
		{"kid with padding", "kid", header("kid", other.Thumbprint+"=")},
		{"kid of another key", "signed", header("kid", other.Thumbprint)},
		{"a jwk beside kid", "jwk", header("jwk", josetest.Raw(other.JWK()))},
		{"jwk null", "jwk", header("jwk", nil)},
		{"alg none", "signed", header("alg", "none")},
		{"alg HS256", "signed", header("alg", "HS256")},
		{"alg of another kind", "signed", header("alg", "ES256")},
		{"alg in another case", "signed", header("alg", "EDDSA")},
		{"no alg", "signed", func(d draft) { delete(d.header, "alg") }},
		{"the newer name of alg", "", header("alg", "Ed25519")},
		{"crit", "not allowed", header("crit", []string{"spoilt"})},
		{"b64", "not allowed", header("b64", false)},
		{"jku", "not allowed", header("jku", "https://spoilt.example/")},
		{"x5c", "not allowed", header("x5c", []string{"spoilt"})},
		{"an unknown header", "", header("cty", "spoilt")},
		{"no iss", "iss", without("iss")},
		{"no sub", "sub", without("sub")},
		{"iss of another", "iss", claim("iss", agent+"2")},
		{"sub of another", "sub", claim("sub", agent+"2")},
		{"sub a list", "sub", subject([]string{agent})},
		{"sub null", "sub", subject(nil)},
		{"sub empty", "sub", subject("")},
		{"sub no SPIFFE ID", "sub", subject("bot")},
		{"sub in another case", "sub", subject("SPIFFE://attestd.example/company/acme/agent/bot")},
		{"aud of the issuer", "", claim("aud", issuer)},
		{"aud a list of one", "", claim("aud", []string{endpoint})},
		{"aud a list of both", "aud", claim("aud", audiences)},
		{"aud a list with a stranger", "aud", claim("aud", []string{endpoint, "https://spoilt.example"})},
		{"aud an empty list", "aud", claim("aud", []string{})},
		{"aud a list of no strings", "aud", claim("aud", []any{1})},
		{"aud a list of lists", "aud", claim("aud", []any{[]string{endpoint}})},
		{"aud an object", "aud", claim("aud", object{"spoilt": endpoint})},
		{"aud null", "aud", claim("aud", nil)},
		{"aud empty", "aud", claim("aud", "")},
		{"no aud", "aud", without("aud")},
		{"another aud", "aud", claim("aud", "https://spoilt.example/v1/oauth/token")},
		{"aud with a slash", "aud", claim("aud", endpoint+"/")},
		{"aud in another case", "aud", claim("aud", strings.ToUpper(endpoint))},
		{"no jti", "jti", without("jti")},
		{"jti empty", "jti", claim("jti", "")},
		{"jti a number", "jti", claim("jti", 1)},
		{"jti of 128", "", claim("jti", strings.Repeat("~", 128))},
		{"jti of 129", "jti", claim("jti", strings.Repeat("j", 129))},
		{"jti with a space", "jti", claim("jti", "a b")},
		{"jti with a control", "jti", claim("jti", "a\x7f")},
		{"jti beyond ASCII", "jti", claim("jti", "é")},
		{"no exp", "exp", without("exp")},
		{"exp null", "exp", claim("exp", nil)},
		{"exp a string", "exp", claim("exp", "1772366460")},
		{"exp a list", "exp", claim("exp", []int64{now.Unix() + 60})},
		{"exp true", "exp", claim("exp", true)},
		{"exp below 0", "exp", claim("exp", -1)},
		{"exp 0", "ended", claim("exp", 0)},
		{"exp now", "ended", claim("exp", now.Unix())},
		{"exp in this second", "ended", claim("exp", josetest.Raw("1772366400.999"))},
		{"exp in a second", "", claim("exp", now.Unix()+1)},
		{"exp in 5 minutes", "", claim("exp", now.Unix()+300)},
		{"exp in 5 minutes and a fraction", "", claim("exp", josetest.Raw("1772366700.5"))},
		{"exp in 301 seconds", "5 minutes", claim("exp", now.Unix()+301)},
		{"exp in milliseconds", "exp", claim("exp", now.UnixMilli())},
		{"exp with an exponent", "", claim("exp", josetest.Raw("1.77236646e9"))},
		{"exp with a fraction and an exponent", "", claim("exp", josetest.Raw("177236646.0E+1"))},
		{"exp with a negative exponent", "", claim("exp", josetest.Raw("17723664600e-1"))},
		{"exp after the year 9999", "exp", claim("exp", 253402300800)},
		{"exp of 2⁶³", "exp", claim("exp", josetest.Raw("9223372036854775808"))},
		{"exp of 2⁶⁴ and a little", "exp", claim("exp", josetest.Raw("18446744075481918076"))},
		{"exp beyond all doubles", "exp", claim("exp", josetest.Raw("1e999"))},
		{"exp of many digits", "exp", claim("exp", josetest.Raw("1772366460."+strings.Repeat("0", 100)))},
		{"no iat", "", without("iat")},
		{"iat 60 s ahead", "", claim("iat", now.Unix()+60)},
		{"iat 61 s ahead", "iat", claim("iat", now.Unix()+61)},
		{"iat long ago", "", claim("iat", 0)},
		{"iat a string", "iat", claim("iat", "spoilt")},
		{"iat null", "iat", claim("iat", nil)},
		{"iat with a fraction", "", claim("iat", josetest.Raw("1772366400.25"))},
		{"iat with an exponent", "", claim("iat", josetest.Raw("1.7723664e9"))},
		{"no nbf", "", without("nbf")},
		{"nbf 60 s ahead", "", claim("nbf", now.Unix()+60)},
		{"nbf 61 s ahead", "not valid yet", claim("nbf", now.Unix()+61)},
		{"nbf with a fraction", "", claim("nbf", josetest.Raw("1772366400.25"))},
		{"nbf below 0", "nbf", claim("nbf", josetest.Raw("-0.5"))},
		{"nbf null", "nbf", claim("nbf", nil)},
		{"unknown claims", "", func(d draft) { d.claims["scope"], d.claims["cnf"], d.claims["b"] = "spoilt", 1, object{"exp": 1} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := sound(t, jose.EdDSA)
			test.spoil(d)
			_, err := check(d.sign(t), d.key.Key())
			if got := refusal(t, err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestRefusesClaimsThatAreNotStrict(t *testing.T) {
	t.Parallel()
	d := sound(t, jose.EdDSA)
	claims := string(josetest.Marshal(t, d.claims))
	for _, text := range []string{
		"", "null", "[]", "{}{}", claims + " x", `{"jti":"a","jti":"b"}`, `{"sub":"a","s\u0075b":"b"}`,
		strings.Replace(claims, "{", `{"spoilt":{"a":1,"a":2},`, 1),
		strings.Replace(claims, "{", `{"spoilt":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`,`, 1),
		strings.Replace(claims, "{", `{"exp":01,`, 1), strings.Replace(claims, "{", "{\"a\":\"\xff\",", 1),
	} {
		_, err := check(josetest.Forge(t, d.key, josetest.Marshal(t, d.header), []byte(text)), d.key.Key())
		if !strings.Contains(refusal(t, err), "claims are not") {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

// An assertion has at most 4096 bytes, all of which count.
func TestParseRefusesOtherForms(t *testing.T) {
	t.Parallel()
	d := sound(t, jose.EdDSA)
	d.claims["filler"] = ""
	missing := (assertion.MaxSize - len(d.sign(t))) * 3 / 4
	d.claims["filler"] = strings.Repeat("x", missing)
	for len(d.sign(t)) < assertion.MaxSize {
		d.claims["filler"] = d.claims["filler"].(string) + "x"
	}
	if n := len(d.sign(t)); n != assertion.MaxSize {
		t.Fatalf("the longest has %d bytes", n)
	}
	_, err := check(d.sign(t), d.key.Key())
	must.OK(t, err)
	good := sound(t, jose.EdDSA).sign(t)
	parts := strings.Split(good, ".")
	for text, want := range map[string]string{
		"":                                       "three parts",
		".":                                      "three parts",
		"..":                                     "header is not",
		parts[0] + "." + parts[1]:                "three parts",
		good + "." + parts[2]:                    "three parts",
		good + "=":                               "base64url",
		good + "\n":                              "base64url",
		parts[0] + ".\r\n" + parts[1] + "." + "": "base64url",
		d.sign(t) + "A":                          "longer than 4096 bytes",
		strings.Repeat("A", 1<<20):               "longer than 4096 bytes",
		parts[1] + "." + parts[0] + "." + parts[2]: "kid",
	} {
		_, err := assertion.Parse(text)
		if !strings.Contains(refusal(t, err), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// No byte of a signature, and no other key, makes the key's signature valid.
func TestSignatureIsChecked(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		compact := sound(t, algorithm).sign(t)
		key := josetest.PrivateKey(t, algorithm).Key()
		_, err := check(compact, key)
		must.OK(t, err)
		for _, other := range algorithms {
			fresh, err := jose.GenerateKey(other)
			must.OK(t, err)
			if _, err := check(compact, fresh.Key()); !strings.Contains(refusal(t, err), "signed") {
				t.Errorf("with a fresh key: %v", err)
			}
		}
		head := compact[:strings.LastIndexByte(compact, '.')+1]
		for _, signature := range [][]byte{nil, make([]byte, 63), make([]byte, 64), make([]byte, 65), make([]byte, 72)} {
			if _, err := check(head+josetest.Encode(signature), key); !strings.Contains(refusal(t, err), "signed") {
				t.Errorf("with %d zeros: %v", len(signature), err)
			}
		}
		for at := range 60 { // of each character of the claims
			changed := []byte(compact)
			if i := strings.IndexByte(compact, '.') + 1 + at; changed[i] == 'A' {
				changed[i] = 'B'
			} else {
				changed[i] = 'A'
			}
			if _, err := check(string(changed), key); refusal(t, err) == "" {
				t.Fatalf("%s passes with another character %d", algorithm, at)
			}
		}
	}
}

// What other protocols sign with the same key is no assertion.
func TestAssertionIsNoOtherToken(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"dpop+jwt", "agent-statement+jwt", "agent-key+jwt", "CAP+JWT"} {
		d := sound(t, jose.ES256)
		d.header["typ"] = typ
		if _, err := assertion.Parse(d.sign(t)); !strings.Contains(refusal(t, err), "typ") {
			t.Errorf("%s: %v", typ, err)
		}
	}
	var claims object
	compact, err := assertion.Make(t.Context(), josetest.PrivateKey(t, jose.ES256), agent, endpoint, now)
	must.OK(t, err)
	a, err := assertion.Parse(compact)
	must.OK(t, err)
	must.OK(t, json.Unmarshal(undo(t, strings.Split(compact, ".")[1]), &claims))
	if len(claims) != 6 || claims["iss"] != agent || claims["sub"] != agent || claims["aud"] != endpoint || claims["jti"] != a.ID ||
		claims["iat"] != float64(now.Unix()) || claims["exp"] != float64(now.Unix()+60) {
		t.Errorf("Make makes %v", claims)
	}
}
