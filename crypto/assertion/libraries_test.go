package assertion_test

import (
	"encoding/json"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"
	josejwt "github.com/go-jose/go-jose/v4/jwt"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/assertion"
	"attestd/internal/must"
)

// Assertions that golang-jwt and go-jose make pass, and they read and validate ours.
func TestOtherLibrariesAgree(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		d := sound(t, algorithm)
		var private josev4.JSONWebKey
		must.OK(t, json.Unmarshal(d.key.JWK(), &private))
		public := private.Public()

		// golang-jwt writes an audience as a list
		token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.RegisteredClaims{
			Issuer: agent, Subject: agent, Audience: jwt.ClaimStrings{endpoint}, ID: "a-2", IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(assertion.MaxLifetime)),
		})
		token.Header["kid"] = private.KeyID
		compact, err := token.SignedString(private.Key)
		must.OK(t, err)
		_, err = check(compact, d.key.Key())
		must.OK(t, err)

		// without typ
		s, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(algorithm), Key: private}, nil)
		must.OK(t, err)
		compact, err = josejwt.Signed(s).Claims(d.claims).Serialize()
		must.OK(t, err)
		_, err = check(compact, d.key.Key())
		must.OK(t, err)

		own, err := assertion.Make(t.Context(), d.key, agent, issuer, now)
		must.OK(t, err)
		theirs, err := josejwt.ParseSigned(own, []josev4.SignatureAlgorithm{josev4.EdDSA, josev4.ES256})
		must.OK(t, err)
		var claims josejwt.Claims
		must.OK(t, theirs.Claims(public, &claims))
		must.OK(t, claims.ValidateWithLeeway(josejwt.Expected{Issuer: agent, Subject: agent, AnyAudience: josejwt.Audience{issuer}, Time: now}, 0))
		_, err = jwt.Parse(own, func(*jwt.Token) (any, error) { return public.Key, nil }, jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(),
			jwt.WithIssuer(agent), jwt.WithSubject(agent), jwt.WithAudience(issuer), jwt.WithExpirationRequired(), jwt.WithTimeFunc(now.Local))
		must.OK(t, err)
	}
}
