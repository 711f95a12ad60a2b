package dpop_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	request = dpop.Request{Method: "POST", URL: "https://attestd.example/v1/attest", AccessToken: "the access token"}
)

type object = map[string]any

// draft is a proof that is not written yet.
type draft struct {
	key            *jose.PrivateKey
	header, claims object
}

// sound is a draft of what request accepts.
func sound(t testing.TB) draft {
	p := josetest.PrivateKey(t, jose.ES256)
	return draft{p, object{"typ": "dpop+jwt", "alg": "ES256", "jwk": json.RawMessage(p.Key().JWK())}, object{
		"jti": "spoilt-not", "htm": "POST", "htu": request.URL, "iat": now.Unix(), "ath": athOf(request.AccessToken),
	}}
}

func (d draft) sign(t testing.TB) string {
	return josetest.Forge(t, d.key, josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims))
}

// refusal returns what err says, which must be an *Error that says nothing of the proof.
func refusal(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *dpop.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no *Error: %v", err, err)
	}
	if len(refused.Message) > 250 || strings.Contains(refused.Message, "spoilt") {
		t.Errorf("message %q", refused.Message)
	}
	return refused.Message
}

func athOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return josetest.Encode(sum[:])
}

func undo(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must.OK(t, err)
	return b
}
