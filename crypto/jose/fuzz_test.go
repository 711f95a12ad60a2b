package jose_test

import (
	"encoding/json"
	"strings"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

// FuzzParseKey holds that whatever passes is the same key to go-jose, and has one form.
func FuzzParseKey(f *testing.F) {
	for _, jwk := range []string{
		rfcEd25519, rfcP256, with(rfcEd25519, `"d":"`+rfcEd25519D+`"`), with(rfcP256, `"use":"sig","key_ops":["verify"],"alg":"ES256"`),
		strings.Replace(rfcEd25519, "11q", "AAA", 1), `{"kty":"OKP","crv":"Ed25519","x":"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}`, `{}`, `[`, "",
	} {
		f.Add([]byte(jwk))
	}
	f.Fuzz(func(t *testing.T, jwk []byte) {
		k, err := jose.ParseKey(jwk)
		if err != nil {
			if len(err.Error()) > 200 {
				t.Fatalf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		again, err := jose.ParseKey([]byte(k.JWK()))
		if err != nil || again.JWK() != k.JWK() || again.Thumbprint != k.Thumbprint {
			t.Fatalf("%q has no one form: %v", jwk, err)
		}
		if theirs, err := jose.NewKey(parsedByOthers(t, k.JWK())); err != nil || theirs.Thumbprint != k.Thumbprint {
			t.Fatalf("%q is another key to go-jose: %v", jwk, err)
		}
	})
}

// FuzzParsePrivateKey holds that whatever passes signs for its public key, and comes back.
func FuzzParsePrivateKey(f *testing.F) {
	for _, algorithm := range algorithms {
		f.Add(privateKey(f, algorithm).JWK())
	}
	f.Add([]byte(rfcEd25519))
	f.Add([]byte(with(rfcP256, `"d":"`+rfcEd25519D+`"`)))
	f.Fuzz(func(t *testing.T, jwk []byte) {
		p, err := jose.ParsePrivateKey(jwk)
		if err != nil {
			return
		}
		if _, err := jose.Sign(t.Context(), p, "a+jwt", nil); err != nil {
			t.Fatal(err)
		}
		if again, err := jose.ParsePrivateKey(p.JWK()); err != nil || string(again.JWK()) != string(p.JWK()) {
			t.Fatalf("does not come back: %v", err)
		}
	})
}

// FuzzParse holds that whatever passes has one spelling, and means the same to go-jose.
func FuzzParse(f *testing.F) {
	for _, algorithm := range algorithms {
		p := privateKey(f, algorithm)
		for _, header := range []string{`{"alg":"` + algorithm + `"}`, `{"alg":"none"}`, `{"alg":"EdDSA","crit":["b64"],"b64":false}`, `{}`} {
			f.Add(signed(f, p, header, `{"a":1}`))
		}
	}
	f.Add("..")
	f.Fuzz(func(t *testing.T, compact string) {
		token, err := jose.Parse(compact, maxSize)
		if err != nil {
			return
		}
		head, _, _ := strings.Cut(compact, ".")
		if token.Signed != head+"."+encode(token.Payload) || compact != token.Signed+"."+encode(token.Signature) {
			t.Fatalf("another spelling: %q", compact)
		}
		var header map[string]any
		must.OK(t, json.Unmarshal(undo(t, head), &header))
		if alg, _ := header["alg"].(string); alg != token.Header.Algorithm {
			t.Fatalf("alg %v is %q to us", header["alg"], token.Header.Algorithm)
		}
		for _, algorithm := range algorithms {
			key := privateKey(t, algorithm).Key()
			if key.Verify(token) != nil || token.Header.Algorithm != algorithm {
				continue
			}
			theirs, err := josev4.ParseSignedCompact(compact, known)
			if err != nil {
				continue // go-jose is stricter about other members
			}
			if payload, err := theirs.Verify(parsedByOthers(t, key.JWK())); err != nil || string(payload) != string(token.Payload) {
				t.Fatalf("go-jose refuses %q: %v", compact, err)
			}
		}
	})
}
