// Package josetest makes keys and tokens for the tests of what is signed. No product code imports
// it.
package josetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"

	"attestd/crypto/jose"
)

// PrivateKey gives each algorithm the same key in every test: those of RFC 8037 A.1 and RFC 7515
// A.3.
func PrivateKey(t testing.TB, algorithm string) *jose.PrivateKey {
	t.Helper()
	p, err := jose.ParsePrivateKey([]byte(map[string]string{
		jose.EdDSA: `{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",` +
			`"d":"nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"}`,
		jose.ES256: `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
			`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}`,
	}[algorithm]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Forge signs any header and claims, be they of no form.
func Forge(t testing.TB, p *jose.PrivateKey, header, claims []byte) string {
	t.Helper()
	input := Encode(header) + "." + Encode(claims)
	signature, err := p.Sign(context.Background(), input)
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + Encode(signature)
}

// Encode is base64url without padding.
func Encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Marshal is json.Marshal of what has a JSON form.
func Marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Raw is JSON that Marshal writes unchanged, also where no encoder would write it so.
type Raw string

// MarshalJSON implements json.Marshaler.
func (r Raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }
