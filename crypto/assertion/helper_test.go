package assertion_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
)

const (
	agent    = "spiffe://attestd.example/company/acme/agent/bot"
	endpoint = "https://attestd.example/v1/oauth/token"
	issuer   = "spiffe://attestd.example/ca"
)

var (
	now        = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	audiences  = []string{endpoint, issuer}
	algorithms = []string{jose.EdDSA, jose.ES256}
)

type object = map[string]any

// draft is an assertion that is not written yet.
type draft struct {
	key            *jose.PrivateKey
	header, claims object
}

// sound is a draft of what check accepts.
func sound(t testing.TB, algorithm string) draft {
	p := josetest.PrivateKey(t, algorithm)
	return draft{p, object{"typ": "JWT", "alg": algorithm, "kid": p.Key().Thumbprint}, object{
		"iss": agent, "sub": agent, "aud": endpoint, "jti": "a-1", "iat": now.Unix(), "nbf": now.Unix(), "exp": now.Unix() + 60,
	}}
}

func (d draft) sign(t testing.TB) string {
	return josetest.Forge(t, d.key, josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims))
}

// check reads an assertion and checks it as the token endpoint does.
func check(compact string, key *jose.Key) (*assertion.Assertion, error) {
	a, err := assertion.Parse(compact)
	if err == nil {
		err = a.Check(key, audiences, now)
	}
	return a, err
}

// refusal returns what err says, which must be an *Error that says nothing of the assertion.
func refusal(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *assertion.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no *Error: %v", err, err)
	}
	if len(refused.Message) > 250 || strings.Contains(refused.Message, "spoilt") || !strings.HasPrefix(refused.Message, "client_assertion ") {
		t.Errorf("message %q", refused.Message)
	}
	return refused.Message
}
