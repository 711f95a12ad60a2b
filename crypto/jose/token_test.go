package jose_test

import (
	"context"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

// signed makes a token with any header.
func signed(t testing.TB, p *jose.PrivateKey, header, payload string) string {
	t.Helper()
	input := encode([]byte(header)) + "." + encode([]byte(payload))
	signature, err := p.Sign(context.Background(), input)
	must.OK(t, err)
	return input + "." + encode(signature)
}

func TestRefusesFormOfToken(t *testing.T) {
	t.Parallel()
	p := privateKey(t, jose.EdDSA)
	sound := signed(t, p, `{"alg":"EdDSA"}`, `{}`)
	must.OK(t, p.Key().Verify(parse(t, sound)))
	head, rest, _ := strings.Cut(sound, ".")
	header := func(members string) string { return signed(t, p, `{"alg":"EdDSA",`+members+`}`, `{}`) }
	for _, test := range []struct{ name, compact, want string }{
		{"nothing", "", "three parts"},
		{"one part", head, "three parts"},
		{"two parts", head + "." + head, "three parts"},
		{"four parts", sound + ".", "three parts"},
		{"an encrypted token", sound + ".a.b", "three parts"},
		{"JSON", `{"payload":"","signatures":[]}`, "three parts"},
		{"padding", head + "=." + rest, "base64url"},
		{"stray bits", sound[:len(sound)-1] + "B", "base64url"},
		{"a line break at the end", sound + "\n", "base64url"},
		{"a line break within", head + "\r\n." + rest, "base64url"},
		{"white space", " " + sound, "base64url"},
		{"base64", strings.ReplaceAll(sound, "-", "+") + "+", "base64url"},
		{"too long", sound + strings.Repeat("A", maxSize), "longer than 16384"},
		{"no header", "." + rest, "header"},
		{"a header that is a list", encode([]byte(`["spoilt"]`)) + "." + rest, "header"},
		{"a header twice", encode([]byte(`{}{}`)) + "." + rest, "header"},
		{"alg twice", header(`"alg":"none"`), "header"},
		{"alg twice in another spelling", header(`"\u0061lg":"none"`), "header"},
		{"a member twice within a member", header(`"spoilt":{"a":1,"a":2}`), "header"},
		{"bad UTF-8", header("\"spoilt\":\"\xff\""), "header"},
		{"crit", header(`"crit":["exp"],"exp":1`), "not allowed"},
		{"crit empty", header(`"crit":[]`), "not allowed"},
		{"crit null", header(`"crit":null`), "not allowed"},
		{"b64", header(`"b64":false`), "not allowed"},
		{"jku", header(`"jku":"https://spoilt.example/"`), "not allowed"},
		{"x5u", header(`"x5u":"https://spoilt.example/"`), "not allowed"},
		{"x5c", header(`"x5c":["spoilt"]`), "not allowed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := jose.Parse(test.compact, maxSize)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "spoilt") {
				t.Errorf("%q does not say %q, or says what it read", err, test.want)
			}
		})
	}
}

func TestReadsHeader(t *testing.T) {
	t.Parallel()
	p := privateKey(t, jose.EdDSA)
	h := parse(t, signed(t, p, `{"alg":"EdDSA","typ":"a+jwt","kid":"k","jwk":{"kty":"x"},"cty":"y","z":1}`, `{}`)).Header
	if h.Algorithm != "EdDSA" || h.Type != "a+jwt" || h.KeyID != "k" || string(h.JWK) != `{"kty":"x"}` || h.Extra != 2 {
		t.Errorf("%+v", h)
	}
	h = parse(t, signed(t, p, `{"alg":["EdDSA"],"typ":1,"kid":null}`, `{}`)).Header
	if h.Algorithm != "" || h.Type != "" || h.KeyID != "" || h.JWK != nil || h.Extra != 0 {
		t.Errorf("%+v", h)
	}
}

// A token counts only under the algorithm of the key, with a signature of the exact length.
func TestVerifyRequiresAlgorithmOfKey(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		p := privateKey(t, algorithm)
		accepted := map[string]bool{algorithm: true, "Ed25519": algorithm == jose.EdDSA}
		for _, alg := range []string{
			"EdDSA", "Ed25519", "ES256", "none", "None", "", "HS256", "RS256", "PS256", "ES384", "ES256K", "Ed448", "eddsa", "ESP256",
		} {
			token := parse(t, signed(t, p, `{"alg":"`+alg+`"}`, `{}`))
			if err := p.Key().Verify(token); (err == nil) != accepted[alg] {
				t.Errorf("%s with a key for %s: %v", alg, algorithm, err)
			}
		}
		sound := parse(t, signed(t, p, `{"alg":"`+algorithm+`"}`, `{}`))
		for _, signature := range [][]byte{
			nil, {}, sound.Signature[:63], append([]byte{0}, sound.Signature...), append(sound.Signature[:64:64], 0), make([]byte, 64), allOnes(64),
		} {
			spoilt := sound
			spoilt.Signature = signature
			if p.Key().Verify(spoilt) != jose.ErrSignature {
				t.Errorf("%s: a signature of %d bytes is accepted", algorithm, len(signature))
			}
		}
		other, err := jose.GenerateKey(algorithm)
		must.OK(t, err)
		if other.Key().Verify(sound) != jose.ErrSignature {
			t.Errorf("%s: accepted under another key", algorithm)
		}
	}
}
