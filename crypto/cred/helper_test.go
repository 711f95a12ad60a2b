package cred_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/crypto/cred"
)

var (
	domain = cred.Domain{TrustDomain: "attestd.local", Service: "service"}
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	agent  = domain.AgentID("acme", "build-bot")
)

// keyOf gives each company the same key in every test.
func keyOf(company string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(company))
	return ed25519.NewKeyFromSeed(seed[:])
}

func newIssuer(company string) *cred.Issuer {
	return cred.NewIssuer(domain, company, keyOf(company), new(cred.Verified))
}

type object = map[string]any

// draft is a token that is not written yet. Those of newPassport and newSVID are sound; tests then
// spoil them and sign them with the company's own key, so that only the check in question can
// refuse them.
type draft struct {
	key    ed25519.PrivateKey
	header object
	claims object
}

func (d draft) namespaced() object { return d.claims["service"].(object) }

func (d draft) sign() string { return forge(d.key, marshal(d.header), marshal(d.claims)) }

func newPassport() draft {
	return draft{
		key:    keyOf("acme"),
		header: object{"alg": "EdDSA", "kid": newIssuer("acme").Public.KID, "typ": "CAP+JWT"},
		claims: object{
			"iss": "spiffe://attestd.local/ca",
			"sub": agent,
			"aud": []string{"service:passport:v1"},
			"jti": "0a6b0c0e-3c3f-4d8e-9d57-0d6b0f6d7f11",
			"iat": now.Unix() - 10, "nbf": now.Unix() - 10, "exp": now.Unix() + 3590,
			"service": object{
				"v": 1, "agentId": "build-bot", "org": "acme",
				"orgSpiffeId":     "spiffe://attestd.local/company/acme",
				"scopes":          []string{"tool:*", "attest:write"},
				"delegationChain": []string{"spiffe://attestd.local/company/acme", agent},
			},
		},
	}
}

func newSVID() draft {
	return draft{
		key:    keyOf("acme"),
		header: object{"alg": "EdDSA", "kid": newIssuer("acme").Public.KID, "typ": "JWT"},
		claims: object{
			"iss": "spiffe://attestd.local/ca",
			"sub": agent,
			"aud": []string{"service"},
			"jti": "0a6b0c0e-3c3f-4d8e-9d57-0d6b0f6d7f11",
			"iat": now.Unix() - 10, "nbf": now.Unix() - 10, "exp": now.Unix() + 3590,
		},
	}
}

// forge signs any header and claims.
func forge(key ed25519.PrivateKey, header, claims []byte) string {
	signed := encode(header) + "." + encode(claims)
	return signed + "." + encode(ed25519.Sign(key, []byte(signed)))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// payload returns the claims of a token as they are written in it.
func payload(t *testing.T, token string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// codeOf returns the code of err, which must be nil or an *Error that says nothing of the token.
func codeOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return "accepted"
	}
	var refused *cred.Error
	if !errors.As(err, &refused) {
		t.Fatalf("%T is no *Error: %v", err, err)
	}
	if refused.Message == "" || len(refused.Message) > 120 || strings.Contains(refused.Message, "spoilt") {
		t.Errorf("message %q", refused.Message)
	}
	return refused.Code
}

// checks are the two ways into the package.
var checks = map[string]func(token string, now time.Time) error{
	"CheckPassport": func(token string, now time.Time) error {
		_, err := newIssuer("acme").CheckPassport(token, now)
		return err
	},
	"CheckDelegation": func(token string, now time.Time) error {
		_, err := newIssuer("acme").CheckDelegation(token, now)
		return err
	},
}

// sound returns what each of checks accepts.
func sound(check string) draft {
	if check == "CheckPassport" {
		return newPassport()
	}
	return newSVID()
}
