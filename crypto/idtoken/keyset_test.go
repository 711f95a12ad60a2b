package idtoken_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/idtoken"
)

// Which keys of a set count, and which sets are refused.
func TestKeySets(t *testing.T) {
	t.Parallel()
	private, err := json.Marshal(josev4.JSONWebKey{Key: pair["p256"]()})
	must(t, err)
	good := string(document(t, jwk(t, "p256", object{"kid": "k1"})))
	good = good[len(`{"keys":[`) : len(good)-len(`]}`)]
	weak, err := json.Marshal(jwk(t, "weak", nil))
	must(t, err)
	strong, err := json.Marshal(jwk(t, "rsa", nil))
	must(t, err)
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
	must(t, err)
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
