package dpop_test

import (
	"crypto"
	"encoding/json"
	"testing"

	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

// Proofs that golang-jwt and go-jose make pass, and they read ours by the embedded key.
func TestOtherLibrariesAgree(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{jose.EdDSA, jose.ES256} {
		p := josetest.PrivateKey(t, algorithm)
		var private josev4.JSONWebKey
		must.OK(t, json.Unmarshal(p.JWK(), &private))
		claims := sound(t).claims

		token := jwt.NewWithClaims(jwt.GetSigningMethod(algorithm), jwt.MapClaims(claims))
		token.Header["typ"], token.Header["jwk"] = "dpop+jwt", private.Public()
		compact, err := token.SignedString(private.Key)
		must.OK(t, err)
		_, err = dpop.Check(compact, request, p.Key().Thumbprint, now)
		must.OK(t, err)

		s, err := josev4.NewSigner(josev4.SigningKey{Algorithm: josev4.SignatureAlgorithm(algorithm), Key: private.Key},
			(&josev4.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
		must.OK(t, err)
		signed, err := s.Sign(josetest.Marshal(t, claims))
		must.OK(t, err)
		compact, err = signed.CompactSerialize()
		must.OK(t, err)
		_, err = dpop.Check(compact, request, p.Key().Thumbprint, now)
		must.OK(t, err)

		compact, err = dpop.Make(t.Context(), p, request, now)
		must.OK(t, err)
		theirs, err := josev4.ParseSignedCompact(compact, []josev4.SignatureAlgorithm{josev4.EdDSA, josev4.ES256})
		must.OK(t, err)
		embedded := theirs.Signatures[0].Header.JSONWebKey
		sum, err := embedded.Thumbprint(crypto.SHA256)
		must.OK(t, err)
		payload, err := theirs.Verify(embedded)
		must.OK(t, err)
		var read struct {
			HTM, HTU, ATH string
			IAT           int64
		}
		must.OK(t, json.Unmarshal(payload, &read))
		if josetest.Encode(sum) != p.Key().Thumbprint || read.HTM != "POST" || read.HTU != request.URL || read.IAT != now.Unix() || read.ATH != athOf(request.AccessToken) {
			t.Errorf("go-jose reads %s", payload)
		}
	}
}

// The newer name of EdDSA, which the packages dpop and oauth4webapi write, is accepted.
func TestAcceptsNewerNameOfEdDSA(t *testing.T) {
	t.Parallel()
	d := sound(t)
	d.key = josetest.PrivateKey(t, jose.EdDSA)
	d.header["alg"], d.header["jwk"] = "Ed25519", d.key.Key()
	_, err := dpop.Check(d.sign(t), request, d.key.Key().Thumbprint, now)
	must.OK(t, err)
}
