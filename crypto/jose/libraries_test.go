package jose_test

import (
	"context"
	"crypto"
	"encoding/json"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

var known = []josev4.SignatureAlgorithm{josev4.EdDSA, josev4.ES256}

// parsedByOthers is what go-jose reads in a public JWK.
func parsedByOthers(t testing.TB, jwk string) crypto.PublicKey {
	t.Helper()
	var k josev4.JSONWebKey
	must.OK(t, json.Unmarshal([]byte(jwk), &k))
	if !k.Valid() || !k.IsPublic() {
		t.Fatalf("go-jose does not take %s", jwk)
	}
	return k.Key
}

// go-jose and golang-jwt read our keys and verify our tokens, and the reverse.
func TestOtherLibrariesAgree(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			own, err := jose.GenerateKey(algorithm)
			must.OK(t, err)
			var theirs josev4.JSONWebKey
			must.OK(t, json.Unmarshal(own.JWK(), &theirs))
			if theirs.KeyID != own.Key().Thumbprint || theirs.Algorithm != algorithm || theirs.IsPublic() {
				t.Errorf("go-jose reads kid %s, alg %s", theirs.KeyID, theirs.Algorithm)
			}
			public := parsedByOthers(t, own.Key().JWK())
			payload := []byte(`{"a":1}`)

			for name, sign := range map[string]func(context.Context, jose.Signer, string, []byte) (string, error){
				"kid": jose.Sign, "jwk": jose.SignWithJWK,
			} {
				compact, err := sign(t.Context(), own, "a+jwt", payload)
				must.OK(t, err)
				parsed, err := josev4.ParseSignedCompact(compact, known)
				must.OK(t, err)
				got, err := parsed.Verify(public)
				must.OK(t, err)
				if string(got) != string(payload) || parsed.Signatures[0].Header.ExtraHeaders["typ"] != "a+jwt" {
					t.Errorf("go-jose reads %s", got)
				}
				if embedded := parsed.Signatures[0].Header.JSONWebKey; (embedded != nil) != (name == "jwk") {
					t.Errorf("go-jose finds the key %v", embedded)
				}
				_, err = jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding()).
					Parse(compact, func(*jwt.Token) (any, error) { return public, nil })
				must.OK(t, err)
			}

			s, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(algorithm), Key: theirs}, nil)
			must.OK(t, err)
			object, err := s.Sign(payload)
			must.OK(t, err)
			compact, err := object.CompactSerialize()
			must.OK(t, err)
			must.OK(t, own.Key().Verify(parse(t, compact)))

			compact, err = jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims{"a": 1}).SignedString(theirs.Key)
			must.OK(t, err)
			must.OK(t, own.Key().Verify(parse(t, compact)))

			exported, err := theirs.MarshalJSON()
			must.OK(t, err)
			again, err := jose.ParsePrivateKey(exported)
			must.OK(t, err)
			if again.Key().Thumbprint != own.Key().Thumbprint {
				t.Error("a key that go-jose writes is another one")
			}
		})
	}
}
