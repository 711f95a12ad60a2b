package cred_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/cred"
	"attestd/internal/testenv"
)

// What is no strict JWS at all. The signatures are good wherever there can be one.
func TestMalformed(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		d := sound(name)
		header, claims := string(marshal(d.header)), string(marshal(d.claims))
		good := d.sign()
		head, body, sig := split(good)
		for what, token := range map[string]string{
			"nothing":               "",
			"two dots":              "..",
			"one part":              head,
			"two parts":             head + "." + body,
			"four parts":            good + "." + sig,
			"five parts, as in JWE": good + "." + sig + "." + sig,
			"padding":               head + "." + body + "." + sig + "==",
			"standard base64":       head + "." + body + "." + strings.Repeat("+/", 43),
			"a space before":        " " + good,
			"a line break after":    good + "\n",
			"Bearer before":         "Bearer " + good,
			"not ASCII":             good + "é",
			"too long":              forge(d.key, []byte(header), []byte(claims[:len(claims)-1]+`,"x":"`+strings.Repeat("x", cred.MaxTokenSize)+`"}`)),

			"a header that is no JSON":        forge(d.key, []byte(header[1:]), []byte(claims)),
			"a header that is an array":       forge(d.key, []byte("["+header+"]"), []byte(claims)),
			"a header and more":               forge(d.key, []byte(header+"{}"), []byte(claims)),
			"a header with alg twice":         forge(d.key, []byte(`{"alg":"none",`+header[1:]), []byte(claims)),
			"a header with alg spelt twice":   forge(d.key, []byte(`{"\u0061lg":"none",`+header[1:]), []byte(claims)),
			"a header with crit spelt freely": forge(d.key, []byte(`{"\u0063rit":["x"],`+header[1:]), []byte(claims)),
			"an empty header":                 forge(d.key, nil, []byte(claims)),

			"claims that are no JSON":      forge(d.key, []byte(header), []byte(claims[1:])),
			"claims that are null":         forge(d.key, []byte(header), []byte("null")),
			"claims with sub twice":        forge(d.key, []byte(header), []byte(`{"sub":"x",`+claims[1:])),
			"claims with a member twice":   forge(d.key, []byte(header), []byte(`{"x":{"y":1,"y":2},`+claims[1:])),
			"claims with invalid UTF-8":    forge(d.key, []byte(header), []byte("{\"x\":\"\xff\","+claims[1:])),
			"claims with a lone surrogate": forge(d.key, []byte(header), []byte(`{"x":"\ud800",`+claims[1:])),
			"claims and more":              forge(d.key, []byte(header), []byte(claims+" 1")),
			"empty claims":                 forge(d.key, []byte(header), nil),
		} {
			if code := codeOf(t, check(token, now)); code != cred.CodeMalformedToken {
				t.Errorf("%s, %s: got %s", name, what, code)
			}
		}
		// What the standard allows passes: unknown members, in any order, with white space and
		// escapes.
		loose := forge(d.key, []byte(" { \"x\" : 1 , \"\\u0074yp\" : "+string(marshal(d.header["typ"]))+`, "kid":"`+d.header["kid"].(string)+`","alg":"\u0045dDSA"} `),
			[]byte(`{"x":{"y":[1.5e400]},`+claims[1:]))
		if code := codeOf(t, check(loose, now)); code != "accepted" {
			t.Errorf("%s refuses a spelling that RFC 7519 allows: %s", name, code)
		}
	}
}

// golang-jwt accepts each of these tokens. If it becomes strict, this test fails and the pre-check
// can be reduced.
func TestRejectsLenientJWT(t *testing.T) {
	t.Parallel()
	for name, check := range checks {
		d := sound(name)
		header, claims := marshal(d.header), marshal(d.claims)
		good := d.sign()
		with := func(member string) []byte { return append([]byte("{"+member+","), header[1:]...) }
		for what, token := range map[string]string{
			"an unknown crit":                forge(d.key, with(`"crit":["exp"]`), claims),
			"b64 false":                      forge(d.key, with(`"b64":false,"crit":["b64"]`), claims),
			"a key in the header":            forge(d.key, with(`"jwk":{"kty":"OKP","crv":"Ed25519","x":"AA"}`), claims),
			"duplicate claims, last wins":    forge(d.key, header, append([]byte(`{"sub":"spiffe://attestd.local/company/globex",`), claims[1:]...)),
			"a line break in the signature":  good[:len(good)-10] + "\n" + good[len(good)-10:],
			"stray bits after the signature": strayBits(good),
		} {
			if _, err := jwt.Parse(token, keyFunc, jwt.WithValidMethods([]string{"EdDSA"}), jwt.WithTimeFunc(clock)); err != nil {
				t.Errorf("%s: golang-jwt refuses it now: %v", what, err)
			}
			if code := codeOf(t, check(token, now)); code != cred.CodeMalformedToken {
				t.Errorf("%s, %s: got %s", name, what, code)
			}
		}
	}
}

// strayBits sets a bit of the last character that decodes to nothing.
func strayBits(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1 // 64 bytes leave the character 4 bits that must be zero
	return token[:last] + string(alphabet[strings.IndexByte(alphabet, token[last])|1])
}

// Tokens made without the private key, for a verifier that lets the header choose the algorithm.
func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	public := newIssuer("acme").Public
	for name, check := range checks {
		d := sound(name)
		claims := marshal(d.claims)
		unsigned := func(alg string) string {
			d.header["alg"] = alg
			return encode(marshal(d.header)) + "." + encode(claims) + "."
		}
		withMAC := func(secret []byte) string {
			token := strings.TrimSuffix(unsigned("HS256"), ".")
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(token))
			return token + "." + encode(mac.Sum(nil))
		}
		for what, token := range map[string]string{
			"none":                     unsigned("none"),
			"None":                     unsigned("None"),
			"HS256 with the key":       withMAC(public.Key),
			"HS256 with the PEM":       withMAC([]byte(public.PEM)),
			"HS256 with the JWK's x":   withMAC([]byte(public.JWK.X)),
			"HS256 with an empty key":  withMAC(nil),
			"no algorithm, signed too": forge(d.key, []byte(`{"typ":"JWT"}`), claims),
		} {
			if code := codeOf(t, check(token, now)); code != cred.CodeAlgorithmMismatch {
				t.Errorf("%s, %s: got %s", name, what, code)
			}
		}
		if code := codeOf(t, check(unsigned("EdDSA"), now)); code != cred.CodeSignatureInvalid {
			t.Errorf("%s without a signature: got %s", name, code)
		}
	}
}

// No character of a token can be changed, dropped or doubled.
func TestTampering(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	allowed := map[string]bool{
		cred.CodeMalformedToken: true, cred.CodeAlgorithmMismatch: true,
		cred.CodeWrongTokenType: true, cred.CodeSignatureInvalid: true,
	}
	for name, check := range checks {
		token := sound(name).sign()
		for i := range len(token) {
			for what, spoilt := range map[string]string{
				"changed": token[:i] + string(token[i]^1) + token[i+1:],
				"dropped": token[:i] + token[i+1:],
				"doubled": token[:i+1] + token[i:],
			} {
				if code := codeOf(t, check(spoilt, now)); !allowed[code] {
					t.Errorf("%s with character %d %s: %s", name, i, what, code)
				}
			}
		}
		// Parts of two tokens that are each good.
		head, body, sig := split(token)
		other := sound(name)
		other.claims["jti"] = "11111111-2222-4333-8444-555555555555"
		_, body2, sig2 := split(other.sign())
		for _, mixed := range []string{head + "." + body2 + "." + sig, head + "." + body + "." + sig2} {
			if code := codeOf(t, check(mixed, now)); code != cred.CodeSignatureInvalid {
				t.Errorf("%s of two tokens: %s", name, code)
			}
		}
	}
}

func split(token string) (head, body, sig string) {
	parts := strings.Split(token, ".")
	return parts[0], parts[1], parts[2]
}

func keyFunc(*jwt.Token) (any, error) { return keyOf("acme").Public().(ed25519.PublicKey), nil }
