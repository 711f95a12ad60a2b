package statement_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/statement"
)

const (
	agent   = "spiffe://attestd.local/company/acme/agent/build-bot"
	company = "spiffe://attestd.local/company/acme"
	payload = `{"target":"prod","n":1.50}`
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type object = map[string]any

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

func actionHash(t testing.TB) string {
	t.Helper()
	hash, err := statement.HashAction("deploy", "build-bot", "acme", []byte(payload))
	must(t, err)
	return hash
}

func expected(t testing.TB) statement.Expected {
	return statement.Expected{Issuer: agent, Audience: company, ActionHash: actionHash(t), Delegation: "d-1"}
}

// draft is a statement that is not written yet.
type draft struct {
	key            *jose.PrivateKey
	header, claims object
}

// sound is a draft with every claim, which expected accepts now.
func sound(t testing.TB, algorithm string) draft {
	p := privateKey(t, algorithm)
	return draft{p, object{"alg": algorithm, "typ": "agent-statement+jwt", "kid": p.Key().Thumbprint}, object{
		"iss": agent, "aud": company, "iat": now.Unix(), "jti": "j-1", "action_hash": actionHash(t), "delegation": "d-1",
		"sid": "run-1", "seq": 1, "prev": strings.Repeat("0a", 32), "end": true,
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

// check makes all the checks of this package. Its error is an *Error that says nothing of the
// statement.
func check(t testing.TB, compact string, key *jose.Key, want statement.Expected) (code string) {
	t.Helper()
	s, err := statement.Parse(compact)
	if err == nil {
		err = s.Check(key, want, now)
	}
	return codeOf(t, err)
}

func codeOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return "accepted"
	}
	var refused *statement.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no *Error: %v", err, err)
	}
	if refused.Message == "" || len(refused.Message) > 160 || strings.Contains(refused.Message, "spoilt") {
		t.Errorf("message %q", refused.Message)
	}
	return refused.Code
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

// rawJSON is marshaled as it stands.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }
