package idtoken_test

import (
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"

	"attestd/crypto/idtoken"
	"attestd/internal/must"
)

// Tokens of every algorithm that go-jose makes pass.
func TestTokensOfGoJosePass(t *testing.T) {
	t.Parallel()
	for alg, kind := range kinds {
		signer, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(alg), Key: josev4.JSONWebKey{Key: pair[kind](), KeyID: "k1"}}, nil)
		must.OK(t, err)
		compact, err := josejwt.Signed(signer).Claims(sound(t, alg).claims).Serialize()
		must.OK(t, err)
		token, err := idtoken.Parse(compact)
		must.OK(t, err)
		for _, keys := range [][]object{
			{jwk(t, kind, object{"kid": "k1", "alg": alg, "use": "sig", "key_ops": []string{"verify"}})},
			{jwk(t, kind, object{"kid": "k1"})},
			{jwk(t, "other", object{"kid": "k2"}), jwk(t, kind, object{"kid": "k1"}), {"kty": "oct", "k": "AA", "kid": "k1"}, {"kty": "AKP"}},
		} {
			if err := token.Check(keySet(t, keys...), idtoken.Wanted{Issuer: issuer, Audience: audience}, now); err != nil {
				t.Errorf("%s: %v", alg, err)
			}
		}
		if token.Issuer != issuer || token.ID != "a-1" || !token.Ends.Equal(now.Add(300*time.Second)) || token.KeyID() != "k1" {
			t.Errorf("%s: %+v", alg, token)
		}
	}
}
