package tokenkey_test

import (
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/jose"
	"attestd/crypto/tokenkey"
	"attestd/internal/must"
)

// What a key signs verifies with go-jose under the published JWK, which names the same thumbprint.
func TestSignatureVerifiesWithGoJOSE(t *testing.T) {
	t.Parallel()
	for _, algorithm := range tokenkey.Algorithms {
		p, err := tokenkey.Generate(algorithm)
		must.OK(t, err)
		token, err := p.Sign("at+jwt", []byte(`{"sub":"a"}`))
		must.OK(t, err)
		var theirs josev4.JSONWebKey
		must.OK(t, json.Unmarshal(p.Public().Published("sig"), &theirs))
		sum, err := theirs.Thumbprint(crypto.SHA256)
		must.OK(t, err)
		if theirs.KeyID != base64.RawURLEncoding.EncodeToString(sum) || theirs.KeyID != p.Public().KID || theirs.Algorithm != algorithm || theirs.Use != "sig" || !theirs.Valid() {
			t.Errorf("%s: %s", algorithm, p.Public().Published("sig"))
		}
		signed, err := josev4.ParseSignedCompact(token, []josev4.SignatureAlgorithm{josev4.SignatureAlgorithm(algorithm)})
		must.OK(t, err)
		payload, err := signed.Verify(theirs)
		must.OK(t, err)
		if h := signed.Signatures[0].Header; string(payload) != `{"sub":"a"}` || h.KeyID != p.Public().KID || h.ExtraHeaders["typ"] != "at+jwt" {
			t.Errorf("%s: %s %+v", algorithm, payload, h)
		}
	}
}

// A key comes back from both of its forms, verifies its own tokens alone, and says no secret.
func TestKeyComesBack(t *testing.T) {
	t.Parallel()
	made := map[string]*tokenkey.Private{}
	for _, algorithm := range tokenkey.Algorithms {
		p, err := tokenkey.Generate(algorithm)
		must.OK(t, err)
		made[algorithm] = p
	}
	for algorithm, p := range made {
		der, err := p.PKCS8()
		must.OK(t, err)
		again, err := tokenkey.ParsePrivate(der)
		must.OK(t, err)
		public, err := tokenkey.ParsePublic(algorithm, p.Public().JWK())
		must.OK(t, err)
		if again.Public().KID != p.Public().KID || public.KID != p.Public().KID || public.Algorithm != algorithm {
			t.Errorf("%s comes back as %v and %v", algorithm, again.Public(), public)
		}
		compact, err := again.Sign("JWT", []byte(`{}`))
		must.OK(t, err)
		token, err := jose.Parse(compact, 4096)
		must.OK(t, err)
		for other, q := range made {
			if err := q.Public().Verify(token); (err == nil) != (other == algorithm) {
				t.Errorf("a token of %s and the key of %s: %v", algorithm, other, err)
			}
		}
		token.Signature[len(token.Signature)-1] ^= 1
		if public.Verify(token) == nil {
			t.Errorf("%s accepts another signature", algorithm)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", p, *p, p, p); strings.Contains(text, strings.Trim(fmt.Sprint(der[36:46]), "[]")) || !strings.Contains(text, p.Public().KID) {
			t.Errorf("printed: %s", text)
		}
		if _, err := json.Marshal(p); err == nil {
			t.Errorf("%s is marshaled", algorithm)
		}
	}
}

func TestRefusesOtherKeys(t *testing.T) {
	t.Parallel()
	p, err := tokenkey.Generate(tokenkey.RS256)
	must.OK(t, err)
	jwk := p.Public().JWK()
	ec, err := tokenkey.Generate(tokenkey.ES256)
	must.OK(t, err)
	for what, c := range map[string][2]string{
		"nothing":            {tokenkey.RS256, ``},
		"no n":               {tokenkey.RS256, `{"e":"AQAB","kty":"RSA"}`},
		"another exponent":   {tokenkey.RS256, strings.Replace(jwk, "AQAB", "Aw", 1)},
		"1024 bits":          {tokenkey.RS256, jwk[:len(`{"e":"AQAB","kty":"RSA","n":"`)+171] + `"}`},
		"another member":     {tokenkey.RS256, strings.Replace(jwk, "{", `{"alg":"RS256",`, 1)},
		"the key of a curve": {tokenkey.RS256, ec.Public().JWK()},
		"another algorithm":  {tokenkey.EdDSA, ec.Public().JWK()},
		"RSA for ES256":      {tokenkey.ES256, jwk},
		"a padded curve":     {tokenkey.ES256, " " + ec.Public().JWK()},
		"a shared secret":    {"HS256", `{"kty":"oct","k":"AAAA"}`},
	} {
		if k, err := tokenkey.ParsePublic(c[0], c[1]); err == nil {
			t.Errorf("%s is accepted: %v", what, k)
		}
	}
	for _, algorithm := range []string{"", "none", "HS256", "RS512", "es256"} {
		if _, err := tokenkey.Generate(algorithm); err == nil {
			t.Errorf("a key for %q", algorithm)
		}
	}
	if _, err := tokenkey.ParsePrivate([]byte("spoilt")); err == nil || strings.Contains(err.Error(), "spoilt") {
		t.Errorf("%v", err)
	}
}

// A set has its keys in their order in the JWK set, and in the bundle those that a JWT-SVID may
// have. Each text is made once.
func TestSetTexts(t *testing.T) {
	t.Parallel()
	var keys []*tokenkey.Public
	for _, algorithm := range tokenkey.Algorithms {
		p, err := tokenkey.Generate(algorithm)
		must.OK(t, err)
		keys = append(keys, p.Public())
	}
	at := time.UnixMilli(1767355200123)
	set := tokenkey.NewSet(keys, at)
	want := fmt.Sprintf(`{"keys":[%s,%s,%s]}`, keys[0].Published("sig"), keys[1].Published("sig"), keys[2].Published("sig"))
	if got := set.JWKS(); string(got) != want || &set.JWKS()[0] != &got[0] {
		t.Errorf("%s, want %s", got, want)
	}
	want = fmt.Sprintf(`{"keys":[%s,%s],"spiffe_sequence":1767355200123,"spiffe_refresh_hint":300}`, keys[0].Published("jwt-svid"), keys[1].Published("jwt-svid"))
	if got := set.Bundle(); string(got) != want || &set.Bundle()[0] != &got[0] {
		t.Errorf("%s, want %s", got, want)
	}
	if !set.Changed.Equal(at) {
		t.Errorf("changed at %v", set.Changed)
	}
	empty := tokenkey.NewSet(nil, time.Time{})
	if jwks, bundle := string(empty.JWKS()), string(empty.Bundle()); jwks != `{"keys":[]}` || bundle != `{"keys":[],"spiffe_sequence":0,"spiffe_refresh_hint":300}` {
		t.Errorf("%s and %s", jwks, bundle)
	}
}
