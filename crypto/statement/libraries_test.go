package statement_test

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

func unbase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must.OK(t, err)
	return b
}

// Statements that golang-jwt and go-jose make pass, and they read ours.
func TestOtherLibrariesAgree(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		d := sound(t, algorithm)
		var private josev4.JSONWebKey
		must.OK(t, json.Unmarshal(d.key.JWK(), &private))
		public := private.Public()

		token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(d.claims))
		token.Header["typ"], token.Header["kid"] = statement.Type, private.KeyID
		compact, err := token.SignedString(private.Key)
		must.OK(t, err)
		if got := check(t, compact, d.key.Key(), expected(t)); got != "accepted" {
			t.Errorf("golang-jwt's %s: %s", algorithm, got)
		}

		s, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(algorithm), Key: private}, (&josev4.SignerOptions{}).WithType(statement.Type))
		must.OK(t, err)
		signed, err := s.Sign(josetest.Marshal(t, d.claims))
		must.OK(t, err)
		compact, err = signed.CompactSerialize()
		must.OK(t, err)
		if got := check(t, compact, d.key.Key(), expected(t)); got != "accepted" {
			t.Errorf("go-jose's %s: %s", algorithm, got)
		}

		own, err := statement.Make(t.Context(), d.key, claims(t))
		must.OK(t, err)
		theirs, err := josev4.ParseSignedCompact(own.Compact, []josev4.SignatureAlgorithm{josev4.EdDSA, josev4.ES256})
		must.OK(t, err)
		payload, err := theirs.Verify(public)
		must.OK(t, err)
		var fromJose map[string]any
		must.OK(t, json.Unmarshal(payload, &fromJose))
		parsed, err := jwt.Parse(own.Compact, func(*jwt.Token) (any, error) { return public.Key, nil },
			jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(), jwt.WithIssuer(agent), jwt.WithAudience(company))
		must.OK(t, err)
		want := map[string]any{
			"iss": agent, "aud": company, "log": origin, "iat": float64(now.Unix()), "jti": own.ID, "action_hash": actionHash(t),
			"delegation": delegation, "sid": "run-1", "seq": float64(0),
		}
		if !reflect.DeepEqual(fromJose, want) || !reflect.DeepEqual(map[string]any(parsed.Claims.(jwt.MapClaims)), want) {
			t.Errorf("they read %v and %v, want %v", fromJose, parsed.Claims, want)
		}
		if !reflect.DeepEqual(parsed.Header, map[string]any{"alg": algorithm, "typ": statement.Type, "kid": d.key.Key().Thumbprint}) {
			t.Errorf("header %v", parsed.Header)
		}
	}
}
