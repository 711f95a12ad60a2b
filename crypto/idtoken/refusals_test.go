package idtoken_test

import (
	"encoding/base64"
	"strings"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// Each check refuses by itself what is sound otherwise.
func TestRefusals(t *testing.T) {
	t.Parallel()
	header := func(name string, value any) func(*draft) { return func(d *draft) { d.header[name] = value } }
	claim := func(name string, value any) func(*draft) { return func(d *draft) { d.claims[name] = value } }
	without := func(name string) func(*draft) { return func(d *draft) { delete(d.claims, name) } }
	compact := func(change func(string) string) func(*draft) { return func(d *draft) { d.compact = change } }
	raw := func(payload string) func(*draft) {
		return compact(func(string) string {
			return forge(t, "p256", "ES256", []byte(`{"alg":"ES256","kid":"k1"}`), []byte(payload))
		})
	}
	const rest = `"sub":"s","aud":"` + audience + `","exp":1772367000`
	at := now.Unix()
	for _, test := range []struct {
		name, want string // want "" is accepted
		spoil      func(*draft)
	}{
		{"sound", "", func(*draft) {}},
		{"no typ", "", func(d *draft) { delete(d.header, "typ") }},
		{"typ JOSE", "", header("typ", "JOSE")},
		{"access token", "", header("typ", "application/AT+jwt")},
		{"list of one audience", "", claim("aud", []string{audience})},
		{"no jti, nbf, iat", "", func(d *draft) { delete(d.claims, "jti"); delete(d.claims, "nbf"); delete(d.claims, "iat") }},
		{"fraction", "", claim("exp", float64(at)+1.5)},
		{"no kid, one key", "", func(d *draft) { delete(d.header, "kid") }},

		// algorithm
		{"alg none", "asymmetric algorithm", header("alg", "none")},
		{"alg NONE", "asymmetric algorithm", header("alg", "NONE")},
		{"alg none without signature", "asymmetric algorithm", func(d *draft) {
			d.header["alg"] = "none"
			d.compact = func(s string) string { return s[:strings.LastIndex(s, ".")+1] }
		}},
		{"alg HS256", "asymmetric algorithm", header("alg", "HS256")},
		{"alg absent", "asymmetric algorithm", func(d *draft) { delete(d.header, "alg") }},
		{"alg a list", "asymmetric algorithm", header("alg", []string{"ES256"})},
		{"alg in lower case", "asymmetric algorithm", header("alg", "es256")},
		{"alg ES256K", "asymmetric algorithm", header("alg", "ES256K")},
		{"alg of another curve", "alg that is not", header("alg", "ES384")},
		{"alg of another kind", "alg that is not", header("alg", "RS256")},
		{"alg that the key is not for", "alg that is not", func(d *draft) { d.keys[0]["alg"] = "ES384" }},

		// key
		{"key of another", "not signed", func(d *draft) { d.keys = []object{jwk(t, "p256", object{"kid": "k1"})}; d.kind = "rsa" }},
		{"unknown kid", "not in the issuer's key set", header("kid", "k2")},
		{"kid in another case", "not in the issuer's key set", header("kid", "K1")},
		{"no kid, two keys", "must have a kid", func(d *draft) {
			delete(d.header, "kid")
			d.keys = append(d.keys, jwk(t, "p256", object{"kid": "k2"}))
		}},
		{"kid of two keys", "several keys", func(d *draft) { d.keys = append(d.keys, d.keys[0]) }},
		{"jwk in the header", "must not have a jwk", func(d *draft) { d.header["jwk"] = jwk(t, "p256", nil) }},
		{"jku", "not allowed", header("jku", "https://evil.example/jwks")},
		{"x5u", "not allowed", header("x5u", "https://evil.example/x5u")},
		{"x5c", "not allowed", header("x5c", []string{"AA"})},
		{"crit", "not allowed", header("crit", []string{"exp"})},
		{"b64", "not allowed", header("b64", false)},
		{"signature of other bytes", "not signed", compact(func(s string) string {
			return s[:len(s)-8] + strings.Repeat("A", 8)
		})},
		{"no signature", "not signed", compact(func(s string) string { return s[:strings.LastIndex(s, ".")+1] })},
		{"signature of zeros", "not signed", compact(func(s string) string {
			return s[:strings.LastIndex(s, ".")+1] + josetest.Encode(make([]byte, 64))
		})},
		{"signature in DER", "not signed", compact(func(s string) string {
			return s[:strings.LastIndex(s, ".")+1] + josetest.Encode([]byte{0x30, 6, 2, 1, 1, 2, 1, 1})
		})},

		// issuer, subject
		{"issuer absent", "the issuer as iss", without("iss")},
		{"issuer of another", "of another issuer", claim("iss", "https://evil.example")},
		{"issuer with a slash", "of another issuer", claim("iss", issuer+"/")},
		{"issuer in another case", "of another issuer", claim("iss", "https://CI.example")},
		{"issuer that looks alike", "of another issuer", claim("iss", "https://сi.example")},
		{"issuer a list", "the issuer as iss", claim("iss", []string{issuer})},
		{"subject absent", "must have a sub", without("sub")},
		{"subject empty", "must have a sub", claim("sub", "")},
		{"subject a number", "must have a sub", claim("sub", 7)},
		{"subject long", "must have a sub", claim("sub", strings.Repeat("x", 1025))},
		{"subject in another case alone", "must have a sub", func(d *draft) { d.claims["Sub"] = d.claims["sub"]; delete(d.claims, "sub") }},

		// audience
		{"audience absent", "exactly one aud", without("aud")},
		{"audience of another", "audience of the federation", claim("aud", "https://attestd.example/o/other")},
		{"audience beginning alike", "audience of the federation", claim("aud", audience+"/")},
		{"two audiences", "exactly one aud", claim("aud", []string{audience, "https://other.example"})},
		{"the same audience twice", "exactly one aud", claim("aud", []string{audience, audience})},
		{"no audience in the list", "exactly one aud", claim("aud", []string{})},
		{"a list in the list", "exactly one aud", claim("aud", []any{[]string{audience}})},
		{"audience an object", "exactly one aud", claim("aud", object{audience: true})},

		// times
		{"exp absent", "must have exp", without("exp")},
		{"exp null", "must have exp", claim("exp", nil)},
		{"exp as text", "must have exp", claim("exp", "9999999999")},
		{"exp negative", "must have exp", claim("exp", -1)},
		{"exp huge", "must have exp", claim("exp", josetest.Raw("1e400"))},
		{"exp now", "has ended", claim("exp", at)},
		{"exp past", "has ended", claim("exp", at-1)},
		{"exp in a day", "", claim("exp", at+86400)},
		{"exp in more than a day", "more than a day", claim("exp", at+86401)},
		{"exp in milliseconds", "must have exp", claim("exp", (at+300)*1000)},
		{"nbf a minute ahead", "", claim("nbf", at+60)},
		{"nbf ahead", "not valid yet", claim("nbf", at+61)},
		{"nbf as text", "nbf that is not", claim("nbf", "0")},
		{"iat a minute ahead", "", claim("iat", at+60)},
		{"iat ahead", "iat more than", claim("iat", at+61)},
		{"iat null", "iat that is not", claim("iat", nil)},

		// other claims
		{"jti empty", "a jti", claim("jti", "")},
		{"jti a number", "a jti", claim("jti", 1)},
		{"jti long", "a jti", claim("jti", strings.Repeat("x", 257))},
		{"logout token", "security event", claim("events", object{"http://schemas.openid.net/event/backchannel-logout": object{}})},
		{"typ of a logout token", "typ that is not", header("typ", "logout+jwt")},
		{"typ of a DPoP proof", "typ that is not", header("typ", "dpop+jwt")},
		{"somebody else acts", "has act", claim("act", object{"sub": "x"})},
		{"typ of an identity assertion", "typ that is not", header("typ", "oauth-id-jag+jwt")},
		{"typ of a statement", "typ that is not", header("typ", "agent-statement+jwt")},

		// form
		{"duplicate claim", "without duplicate", raw(`{"iss":"` + issuer + `","iss":"` + issuer + `",` + rest + `}`)},
		{"duplicate claim by an escape", "without duplicate", raw(`{"iss":"` + issuer + `","\u0069ss":"x",` + rest + `}`)},
		{"duplicate deep inside", "without duplicate", raw(`{"iss":"` + issuer + `","x":{"y":[{"a":1,"a":2}]},` + rest + `}`)},
		{"lone surrogate", "without duplicate", raw(`{"iss":"` + issuer + `","x":"\ud800",` + rest + `}`)},
		{"deeply nested", "without duplicate", raw(`{"iss":"` + issuer + `","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `,` + rest + `}`)},
		{"data after the claims", "without duplicate", raw(`{"iss":"` + issuer + `",` + rest + `}{}`)},
		{"claims are a list", "without duplicate", raw(`[]`)},
		{"a token in a token", "around another", raw(`"a.b.c"`)},
		{"duplicate header", "header is not", compact(func(s string) string {
			return forge(t, "p256", "ES256", []byte(`{"alg":"none","alg":"ES256","kid":"k1"}`), undo(t, strings.Split(s, ".")[1]))
		})},
		{"huge", "longer than 16384", claim("x", strings.Repeat("x", 16<<10))},
		{"two parts", "three parts", compact(func(s string) string { return s[:strings.LastIndex(s, ".")] })},
		{"four parts", "three parts", compact(func(s string) string { return s + ".AA" })},
		{"padding", "base64url", compact(func(s string) string { return s + "==" })},
		{"line break", "base64url", compact(func(s string) string { return s + "\n" })},
		{"white space", "base64url", compact(func(s string) string { return " " + s })},
		{"empty", "three parts", compact(func(string) string { return "" })},
		{"encrypted", "encrypted", compact(func(string) string { return encrypted(t) })},
	} {
		d := sound(t, "ES256")
		test.spoil(d)
		_, err := d.check(t)
		got := refusal(t, err)
		if test.want == "" && got != "" || test.want != "" && !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// An HMAC whose secret is the issuer's public key, in any of its forms, is refused (CVE-2015-9235).
func TestPublicKeyIsNoSecret(t *testing.T) {
	t.Parallel()
	d := sound(t, "RS256")
	for _, secret := range [][]byte{document(t, d.keys...), josetest.Marshal(t, d.keys[0]), undo(t, d.keys[0]["n"].(string))} {
		signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.HS256, Key: secret}, nil)
		must.OK(t, err)
		jws, err := signer.Sign(josetest.Marshal(t, d.claims))
		must.OK(t, err)
		compact, err := jws.CompactSerialize()
		must.OK(t, err)
		if _, err := idtoken.Parse(compact); !strings.Contains(refusal(t, err), "asymmetric") {
			t.Error(err)
		}
	}
}

// The JSON serializations of a JWS are not taken (RFC 7515 §7.2).
func TestJSONSerializationIsRefused(t *testing.T) {
	t.Parallel()
	parts := strings.Split(sound(t, "ES256").sign(t), ".")
	_, err := idtoken.Parse(string(josetest.Marshal(t, object{"protected": parts[0], "payload": parts[1], "signature": parts[2]})))
	if refusal(t, err) == "" {
		t.Error("accepted")
	}
}

func encrypted(t *testing.T) string {
	e, err := josev4.NewEncrypter(josev4.A128GCM, josev4.Recipient{Algorithm: josev4.ECDH_ES, Key: pair["p256"]().Public()}, nil)
	must.OK(t, err)
	jwe, err := e.Encrypt([]byte("{}"))
	must.OK(t, err)
	compact, err := jwe.CompactSerialize()
	must.OK(t, err)
	return compact
}

func undo(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must.OK(t, err)
	return b
}
