package statement_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/jose"
	"attestd/crypto/jose/josetest"
	"attestd/crypto/statement"
	"attestd/internal/must"
)

const (
	agent   = "spiffe://attestd.local/company/acme/agent/build-bot"
	company = "spiffe://attestd.local/company/acme"
	payload = `{"target":"prod","n":1.50}`
	origin  = "attest.example/v1/log/0123456789abcdef0123456789abcdef"
)

// hashes of statements, and of a delegation
var (
	previous   = strings.Repeat("0a", 32)
	earlier    = strings.Repeat("1b", 32)
	delegation = strings.Repeat("2c", 32)
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type object = map[string]any

func actionHash(t testing.TB) string {
	t.Helper()
	hash, err := statement.HashAction("deploy", "build-bot", "acme", []byte(payload))
	must.OK(t, err)
	return hash
}

func expected(t testing.TB) statement.Expected {
	return statement.Expected{
		Issuer: agent, Audience: company, Log: origin, ActionHash: actionHash(t), TokenID: "d-1", DelegationHash: delegation,
	}
}

// draft is a statement that is not written yet.
type draft struct {
	key            *jose.PrivateKey
	header, claims object
}

// sound is a draft of version 2 with every claim but continues, which expected accepts now.
func sound(t testing.TB, algorithm string) draft {
	d := soundFirst(t, algorithm)
	d.claims["log"], d.claims["delegation"], d.claims["seq"] = origin, delegation, 3
	d.claims["refused"] = []object{refusal(1, earlier, "RATE_LIMITED"), refusal(2, previous, "HTTP_400")}
	return d
}

func refusal(seq, hash, code any) object { return object{"seq": seq, "hash": hash, "code": code} }

// continued is sound as the first statement of a session that goes on from another one.
func continued(t testing.TB, algorithm string) draft {
	d := sound(t, algorithm)
	without("refused", "prev")(d)
	d.claims["seq"], d.claims["continues"] = 0, object{"sid": "run-0", "kid": d.key.Key().Thumbprint, "hash": previous}
	return d
}

// soundFirst is a draft of version 1 with every claim, which expected accepts now.
func soundFirst(t testing.TB, algorithm string) draft {
	p := josetest.PrivateKey(t, algorithm)
	return draft{p, object{"alg": algorithm, "typ": "agent-statement+jwt", "kid": p.Key().Thumbprint}, object{
		"iss": agent, "aud": company, "iat": now.Unix(), "jti": "j-1", "action_hash": actionHash(t), "delegation": "d-1",
		"sid": "run-1", "seq": 1, "prev": previous, "end": true,
	}}
}

func (d draft) sign(t testing.TB) string {
	return josetest.Forge(t, d.key, josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims))
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
