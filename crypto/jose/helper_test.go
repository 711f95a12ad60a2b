package jose_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"attestd/crypto/jose"
)

// The keys of RFC 8037 A.1 and of RFC 7515 A.3.
const (
	rfcEd25519 = `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`
	rfcP256    = `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
		`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`
	rfcEd25519D = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"
	rfcP256D    = "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"
)

var algorithms = []string{jose.EdDSA, jose.ES256}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// with returns a JWK with more members.
func with(jwk, members string) string { return strings.TrimSuffix(jwk, "}") + "," + members + "}" }

// privateKey gives each algorithm the same key in every test: those of the RFCs.
func privateKey(t testing.TB, algorithm string) *jose.PrivateKey {
	t.Helper()
	jwk := with(rfcEd25519, `"d":"`+rfcEd25519D+`"`)
	if algorithm == jose.ES256 {
		jwk = with(rfcP256, `"d":"`+rfcP256D+`"`)
	}
	p, err := jose.ParsePrivateKey([]byte(jwk))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parseKey(t testing.TB, jwk string) *jose.Key {
	t.Helper()
	k, err := jose.ParseKey([]byte(jwk))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func parse(t testing.TB, compact string) jose.Token {
	t.Helper()
	token, err := jose.Parse(compact, maxSize)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// discloses reports whether text has a secret in any spelling that Go prints bytes in.
func discloses(text string, secret []byte) bool {
	sum := sha256.Sum256(secret)
	for _, spelling := range []string{
		encode(secret), hex.EncodeToString(secret), strings.ToUpper(hex.EncodeToString(secret)),
		base64.StdEncoding.EncodeToString(secret), fmt.Sprint(secret[:8])[1:20], string(secret), hex.EncodeToString(sum[:]),
	} {
		if strings.Contains(text, spelling) {
			return true
		}
	}
	return false
}
