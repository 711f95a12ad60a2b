package idtoken_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	josev4 "github.com/go-jose/go-jose/v4"

	"attestd/crypto/idtoken"
	"attestd/crypto/jose/josetest"
	"attestd/internal/must"
)

const (
	issuer   = "https://ci.example"
	audience = "https://attestd.example/o/acme"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type object = map[string]any

// pair makes the one key pair of a kind that all tests share.
var pair = map[string]func() crypto.Signer{
	"rsa":     sync.OnceValue(func() crypto.Signer { return rsaKey(2048) }),
	"other":   sync.OnceValue(func() crypto.Signer { return rsaKey(2048) }),
	"weak":    sync.OnceValue(func() crypto.Signer { return rsaKey(1024) }),
	"p256":    sync.OnceValue(func() crypto.Signer { return ecKey(elliptic.P256()) }),
	"p384":    sync.OnceValue(func() crypto.Signer { return ecKey(elliptic.P384()) }),
	"p521":    sync.OnceValue(func() crypto.Signer { return ecKey(elliptic.P521()) }),
	"ed25519": sync.OnceValue(func() crypto.Signer { _, k, _ := ed25519.GenerateKey(rand.Reader); return k }),
}

func rsaKey(bits int) crypto.Signer {
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return k
}

func ecKey(curve elliptic.Curve) crypto.Signer {
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

// kinds says which kind of key signs an algorithm.
var kinds = map[string]string{
	"RS256": "rsa", "RS384": "rsa", "RS512": "rsa", "PS256": "rsa", "PS384": "rsa", "PS512": "rsa",
	"ES256": "p256", "ES384": "p384", "ES512": "p521", "EdDSA": "ed25519",
}

// jwk is the public key of a kind, with further members.
func jwk(t testing.TB, kind string, more object) object {
	t.Helper()
	b, err := json.Marshal(josev4.JSONWebKey{Key: pair[kind]().Public()})
	must.OK(t, err)
	var members object
	must.OK(t, json.Unmarshal(b, &members))
	for name, value := range more {
		members[name] = value
	}
	return members
}

func document(t testing.TB, keys ...object) []byte {
	return josetest.Marshal(t, object{"keys": keys})
}

func keySet(t testing.TB, keys ...object) *idtoken.KeySet {
	t.Helper()
	set, err := idtoken.ParseKeySet(document(t, keys...))
	must.OK(t, err)
	return set
}

// draft is a token that is not signed yet.
type draft struct {
	kind           string // of the key that signs
	header, claims object
	keys           []object // key set of the issuer
	compact        func(string) string
}

func sound(t testing.TB, alg string) *draft {
	return &draft{
		kind: kinds[alg], header: object{"alg": alg, "kid": "k1", "typ": "JWT"},
		claims: object{
			"iss": issuer, "sub": "repo:octo-org/octo-repo:ref:refs/heads/main", "aud": audience, "jti": "a-1",
			"iat": now.Unix() - 5, "nbf": now.Unix() - 5, "exp": now.Unix() + 300,
		},
		keys: []object{jwk(t, kinds[alg], object{"kid": "k1", "use": "sig", "alg": alg})},
	}
}

// sign signs whatever header and claims there are.
func (d *draft) sign(t testing.TB) string {
	t.Helper()
	compact := forge(t, d.kind, d.header["alg"], josetest.Marshal(t, d.header), josetest.Marshal(t, d.claims))
	if d.compact != nil {
		compact = d.compact(compact)
	}
	return compact
}

// forge signs bytes with a key. An algorithm that is unknown has the signature of ES256, or that of
// RS256.
func forge(t testing.TB, kind string, alg any, header, claims []byte) string {
	t.Helper()
	input := josetest.Encode(header) + "." + josetest.Encode(claims)
	name, _ := alg.(string)
	if kinds[name] == "" {
		name = map[string]string{"rsa": "RS256", "other": "RS256", "weak": "RS256", "p256": "ES256", "p384": "ES384", "p521": "ES512", "ed25519": "EdDSA"}[kind]
	}
	return input + "." + josetest.Encode(signature(t, kind, name, input))
}

func (d *draft) check(t testing.TB) (*idtoken.Token, error) {
	t.Helper()
	token, err := idtoken.Parse(d.sign(t))
	if err == nil {
		err = token.Check(keySet(t, d.keys...), idtoken.Wanted{Issuer: issuer, Audience: audience}, now)
	}
	return token, err
}

// refusal is the text of an *idtoken.Error, "" for nil. Any other error fails the test.
func refusal(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *idtoken.Error
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, "the assertion ") {
		t.Fatalf("%T: %v", err, err)
	}
	return refused.Message
}
