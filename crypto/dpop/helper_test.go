package dpop_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/dpop"
	"attestd/crypto/jose"
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	request = dpop.Request{Method: "POST", URL: "https://attestd.example/v1/attest", AccessToken: "the access token"}
)

// privateKey gives each algorithm the same key in every test: those of RFC 8037 A.1 and RFC 7515
// A.3.
func privateKey(t testing.TB, algorithm string) *jose.PrivateKey {
	t.Helper()
	p, err := jose.ParsePrivateKey([]byte(map[string]string{
		jose.EdDSA: `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",` +
			`"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`,
		jose.ES256: `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
			`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}`,
	}[algorithm]))
	must(t, err)
	return p
}

type object = map[string]any

// draft is a proof that is not written yet.
type draft struct {
	key            *jose.PrivateKey
	header, claims object
}

// sound is a draft of what request accepts.
func sound(t testing.TB) draft {
	p := privateKey(t, jose.ES256)
	return draft{p, object{"typ": "dpop+jwt", "alg": "ES256", "jwk": json.RawMessage(p.Key().JWK())}, object{
		"jti": "spoilt-not", "htm": "POST", "htu": request.URL, "iat": now.Unix(), "ath": athOf(request.AccessToken),
	}}
}

func (d draft) sign(t testing.TB) string {
	return forge(t, d.key, marshal(t, d.header), marshal(t, d.claims))
}

func forge(t testing.TB, p *jose.PrivateKey, header, claims []byte) string {
	t.Helper()
	input := encode(header) + "." + encode(claims)
	signature, err := p.Sign(context.Background(), input)
	must(t, err)
	return input + "." + encode(signature)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	return encode(sum[:])
}

func undo(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	must(t, err)
	return b
}
