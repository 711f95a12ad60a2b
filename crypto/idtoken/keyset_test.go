package idtoken_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// Which keys of a set count, and which sets are refused.
func TestKeySets(t *testing.T) {
	t.Parallel()
	private, err := json.Marshal(josev4.JSONWebKey{Key: pair["p256"]()})
	must.OK(t, err)
	good := string(document(t, jwk(t, "p256", object{"kid": "k1"})))
	good = good[len(`{"keys":[`) : len(good)-len(`]}`)]
	weak, err := json.Marshal(jwk(t, "weak", nil))
	must.OK(t, err)
	strong, err := json.Marshal(jwk(t, "rsa", nil))
	must.OK(t, err)
	for _, test := range []struct {
		name, document, want string
		keys                 int
	}{
		{"one", `{"keys":[` + good + `]}`, "", 1},
		{"RSA", `{"keys":[` + string(strong) + `]}`, "", 1},
		{"other members", `{"x":1,"keys":[` + good + `]}`, "", 1},
		{"what is unknown, malformed or symmetric is left out", `{"keys":[{},{"kty":"X"},{"kty":"RSA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},7,{"kty":"oct","k":"AAAA"},` + good + `]}`, "", 1},
		{"for encryption", `{"keys":[` + strings.Replace(good, `{`, `{"use":"enc",`, 1) + `]}`, "no key that can be used", 0},
		{"for signing alone", `{"keys":[` + strings.Replace(good, `{`, `{"key_ops":["sign"],`, 1) + `]}`, "no key that can be used", 0},
		{"for an HMAC", `{"keys":[` + strings.Replace(good, `{`, `{"alg":"HS256",`, 1) + `]}`, "no key that can be used", 0},
		{"use in another form", `{"keys":[` + strings.Replace(good, `{`, `{"use":["sig"],`, 1) + `]}`, "no key that can be used", 0},
		{"1024 bits", `{"keys":[` + string(weak) + `]}`, "no key that can be used", 0},
		{"exponent 1", `{"keys":[` + strings.Replace(string(strong), "AQAB", "AQ", 1) + `]}`, "no key that can be used", 0},
		{"huge exponent", `{"keys":[` + strings.Replace(string(strong), "AQAB", strings.Repeat("AQAB", 20), 1) + `]}`, "no key that can be used", 0},
		{"huge modulus", `{"keys":[{"kty":"RSA","e":"AQAB","n":"` + strings.Repeat("_", 2000) + `"}]}`, "no key that can be used", 0},
		{"point of small order", `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`, "no key that can be used", 0},
		{"not on the curve", `{"keys":[{"kty":"EC","crv":"P-256","x":"` + strings.Repeat("A", 43) + `","y":"` + strings.Repeat("A", 43) + `"}]}`, "no key that can be used", 0},
		{"a private key", `{"keys":[` + good + `,` + string(private) + `]}`, "private key", 0},
		{"duplicate member", `{"keys":[],"keys":[` + good + `]}`, "without duplicate", 0},
		{"duplicate member of a key", `{"keys":[` + strings.Replace(good, `{`, `{"kid":"k2",`, 1) + `]}`, "without duplicate", 0},
		{"no keys", `{"keys":[]}`, "no key that can be used", 0},
		{"no list", `{"keys":{}}`, "no list of keys", 0},
		{"absent", `{}`, "no list of keys", 0},
		{"a page", `<html>`, "not a JSON object", 0},
		{"empty", ``, "not a JSON object", 0},
		{"many", `{"keys":[` + strings.Repeat(`{},`, 100) + good + `]}`, "more than 100", 0},
		{"long", `{"keys":[` + good + `]}` + strings.Repeat(" ", idtoken.MaxKeySet), "longer than", 0},
	} {
		set, err := idtoken.ParseKeySet([]byte(test.document))
		if got := fmt.Sprint(err); test.want == "" && err != nil || test.want != "" && !strings.Contains(got, test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		} else if err == nil && set.Len() != test.keys {
			t.Errorf("%s: %d keys", test.name, set.Len())
		}
	}
}

// A claim is found by its name, or by a pointer into objects.
func TestClaims(t *testing.T) {
	t.Parallel()
	claims, err := idtoken.ParseClaims([]byte(`{"sub":"s","kubernetes.io":{"namespace":"ns","a/b":{"~":1}},"/x":2,"list":[{"a":1}]}`))
	must.OK(t, err)
	for name, want := range map[string]string{
		"sub": `"s"`, "/sub": `"s"`, "kubernetes.io": `{"namespace":"ns","a/b":{"~":1}}`, "/kubernetes.io/namespace": `"ns"`,
		"/kubernetes.io/a~1b/~0": "1", "/~1x": "2",
		"Sub": "", "": "", "/": "", "/x": "", "/sub/x": "", "/list/0": "", "/list/0/a": "", "/kubernetes.io/": "", "kubernetes.io/namespace": "",
	} {
		if got, is := claims.At(name); string(got) != want || is != (want != "") {
			t.Errorf("%q: %s, %v", name, got, is)
		}
	}
}

var clientAlgorithms = []string{"ES256", "RS256", "PS256", "EdDSA", "Ed25519"}

// A signature counts with the key that kid names, by its own kid or its thumbprint, with an
// algorithm of the list that is that key's, and otherwise never.
func TestVerifiesWithNamedKey(t *testing.T) {
	t.Parallel()
	thumbprint := func(kind string) string {
		_, thumbprint, err := idtoken.ParseRSA(josetest.Marshal(t, jwk(t, kind, nil)), clientAlgorithms)
		must.OK(t, err)
		return thumbprint
	}
	set := keySet(t, jwk(t, "rsa", object{"kid": "r"}), jwk(t, "other", object{"kid": "ps", "alg": "PS256"}), jwk(t, "p256", object{"kid": "e"}),
		jwk(t, "p384", object{"kid": "e384"}), jwk(t, "ed25519", object{"kid": "ed"}), jwk(t, "weak", object{"kid": "weak"}))
	for _, test := range []struct {
		kind, alg string // the key that signs, and how
		header    object
		want      bool
	}{
		{"rsa", "RS256", object{"alg": "RS256", "kid": "r"}, true},
		{"rsa", "PS256", object{"alg": "PS256", "kid": "r"}, true},
		{"rsa", "RS256", object{"alg": "RS256"}, true},
		{"rsa", "RS256", object{"alg": "RS256", "kid": thumbprint("rsa")}, true},
		{"other", "PS256", object{"alg": "PS256", "kid": "ps"}, true},
		{"other", "PS256", object{"alg": "PS256"}, true},
		{"p256", "ES256", object{"alg": "ES256", "kid": "e"}, true},
		{"ed25519", "EdDSA", object{"alg": "EdDSA", "kid": "ed"}, true},
		{"ed25519", "EdDSA", object{"alg": "Ed25519", "kid": "ed"}, true},

		{"other", "RS256", object{"alg": "RS256", "kid": "ps"}, false},
		{"rsa", "RS256", object{"alg": "PS256", "kid": "r"}, false},
		{"rsa", "PS256", object{"alg": "RS256", "kid": "r"}, false},
		{"rsa", "RS384", object{"alg": "RS384", "kid": "r"}, false},
		{"rsa", "RS512", object{"alg": "RS512", "kid": "r"}, false},
		{"rsa", "PS384", object{"alg": "PS384", "kid": "r"}, false},
		{"rsa", "PS512", object{"alg": "PS512", "kid": "r"}, false},
		{"rsa", "RS384", object{"alg": "RS256", "kid": "r"}, false},
		{"p384", "ES384", object{"alg": "ES384", "kid": "e384"}, false},
		{"rsa", "RS256", object{"alg": "rs256", "kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "RSA1_5", "kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "HS256", "kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "none", "kid": "r"}, false},
		{"rsa", "RS256", object{"kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "RS256", "kid": "ps"}, false},
		{"rsa", "RS256", object{"alg": "RS256", "kid": "e"}, false},
		{"rsa", "RS256", object{"alg": "ES256", "kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "EdDSA", "kid": "r"}, false},
		{"rsa", "RS256", object{"alg": "RS256", "kid": "R"}, false},
		{"rsa", "RS256", object{"alg": "RS256", "kid": thumbprint("other")}, false},
		{"rsa", "RS256", object{"alg": "RS256", "kid": thumbprint("rsa") + "="}, false},
		{"other", "RS256", object{"alg": "RS256"}, false},
		{"weak", "RS256", object{"alg": "RS256", "kid": "weak"}, false},
		{"weak", "RS256", object{"alg": "RS256"}, false},
	} {
		token, err := jose.Parse(forge(t, test.kind, test.alg, josetest.Marshal(t, test.header), []byte("{}")), 4096)
		must.OK(t, err)
		if got := set.Verify(token, clientAlgorithms); got != test.want {
			t.Errorf("%s signs %s, header %v: %v", test.kind, test.alg, test.header, got)
		}
		if !test.want {
			continue
		}
		for _, spoil := range []func(jose.Token) jose.Token{
			func(t jose.Token) jose.Token { t.Signed += "A"; return t },
			func(t jose.Token) jose.Token { t.Signature = t.Signature[1:]; return t },
			func(t jose.Token) jose.Token { t.Signature = append(t.Signature, 0); return t },
			func(t jose.Token) jose.Token { t.Signature = nil; return t },
			func(t jose.Token) jose.Token { t.Signature = make([]byte, len(t.Signature)); return t },
		} {
			if set.Verify(spoil(token), clientAlgorithms) {
				t.Errorf("%s signs %s: another signature or text counts", test.kind, test.alg)
			}
		}
	}
}

// Without a kid a bounded number of keys is tried.
func TestBoundedTries(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{8: true, 9: false} {
		var keys []object
		for i := range n - 1 {
			keys = append(keys, jwk(t, "other", object{"kid": fmt.Sprint(i)}))
		}
		set := keySet(t, append(keys, jwk(t, "rsa", object{"kid": "r"}))...)
		for _, header := range []object{{"alg": "RS256"}, {"alg": "RS256", "kid": "r"}} {
			token, err := jose.Parse(forge(t, "rsa", "RS256", josetest.Marshal(t, header), []byte("{}")), 4096)
			must.OK(t, err)
			if got := set.Verify(token, clientAlgorithms); got != (want || header["kid"] != nil) {
				t.Errorf("%d keys, header %v: %v", n, header, got)
			}
		}
	}
}

// An RSA key is stored in one form, with the algorithm that it is for.
func TestRSAKeyHasOneForm(t *testing.T) {
	t.Parallel()
	good := jwk(t, "rsa", nil)
	plain := fmt.Sprintf(`{"e":"AQAB","kty":"RSA","n":%q}`, good["n"])
	for want, more := range map[string]object{
		plain: {"kid": "x", "use": "sig", "key_ops": []string{"verify"}, "x5c": []string{"x"}, "other": object{"d": 1}},
		strings.Replace(plain, "{", `{"alg":"RS256",`, 1): {"alg": "RS256"},
		strings.Replace(plain, "{", `{"alg":"PS256",`, 1): {"alg": "PS256", "kid": "x"},
	} {
		stored, thumbprint, err := idtoken.ParseRSA(josetest.Marshal(t, jwk(t, "rsa", more)), clientAlgorithms)
		must.OK(t, err)
		again, same, err := idtoken.ParseRSA([]byte(stored), clientAlgorithms)
		must.OK(t, err)
		if stored != want || again != stored || same != thumbprint || !jose.IsThumbprint(thumbprint) {
			t.Errorf("%s, want %s", stored, want)
		}
	}
	n := good["n"].(string)
	for name, more := range map[string]object{
		"alg of another length": {"alg": "RS384"},
		"alg of another kind":   {"alg": "ES256"},
		"alg HS256":             {"alg": "HS256"},
		"alg none":              {"alg": "none"},
		"alg a number":          {"alg": 1},
		"alg for encryption":    {"alg": "RSA-OAEP"},
		"use":                   {"use": "enc"},
		"key_ops":               {"key_ops": []string{"encrypt"}},
		"weak":                  jwk(t, "weak", nil),
		"private":               {"d": "AQAB"},
		"private, in primes":    {"p": "AQAB"},
		"a secret":              {"k": "AQAB"},
		"another kind's":        {"crv": "P-256"},
		"no n":                  {"n": nil},
		"n a list":              {"n": []string{n}},
		"n padded":              {"n": n + "=="},
		"n with leading zeros":  {"n": "AAAA" + n},
		"n even":                {"n": n[:len(n)-2] + "AA"},
		"n of 8200 bits":        {"n": strings.Repeat("_", 1366) + "_w"},
		"e 1":                   {"e": "AQ"},
		"e 2":                   {"e": "Ag"},
		"e 0":                   {"e": "AA"},
		"e even":                {"e": "AQAC"},
		"e with leading zeros":  {"e": "AAEAAQ"},
		"e of eight bytes":      {"e": "AQAAAAAAAAE"},
		"e absent":              {"e": nil},
		"kty in another case":   {"kty": "rsa"},
	} {
		text, err := json.Marshal(jwk(t, "rsa", more))
		must.OK(t, err)
		if stored, _, err := idtoken.ParseRSA(text, clientAlgorithms); err == nil {
			t.Errorf("%s is accepted as %s", name, stored)
		} else if strings.Contains(err.Error(), n[:8]) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
	for _, text := range []string{"", "null", "[]", plain + "x", strings.Replace(plain, "{", `{"e":"AQAB",`, 1)} {
		if _, _, err := idtoken.ParseRSA([]byte(text), clientAlgorithms); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
