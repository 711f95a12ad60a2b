package jose_test

import (
	"context"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"

	"attestd/crypto/jose"
)

// A generated key comes back from its file, and signs the same.
func TestPrivateKeyRoundTrip(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		p, err := jose.GenerateKey(algorithm)
		must(t, err)
		file := p.JWK()
		if strings.Count(string(file), "\n") != 1 || !strings.HasSuffix(string(file), "}\n") {
			t.Errorf("%s: not one line", algorithm)
		}
		again, err := jose.ParsePrivateKey(file)
		must(t, err)
		if string(again.JWK()) != string(file) || again.Key().Thumbprint != p.Key().Thumbprint {
			t.Errorf("%s: comes back as another key", algorithm)
		}
		compact, err := jose.Sign(context.Background(), again, "a+jwt", []byte(`{}`))
		must(t, err)
		must(t, p.Key().Verify(parse(t, compact)))
		if _, err := jose.ParseKey(file); err == nil {
			t.Errorf("%s: the private form passes for a public key", algorithm)
		}
	}
	if _, err := jose.GenerateKey("none"); err == nil {
		t.Error("a key for no algorithm")
	}
}

func TestRefusesPrivateJWK(t *testing.T) {
	t.Parallel()
	order := encode(unhex(t, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"))
	for _, test := range []struct{ name, jwk, want string }{
		{"a public key", rfcEd25519, "no private key"},
		{"no JSON", rfcEd25519D, "JSON object"},
		{"PEM", "-----BEGIN PRIVATE KEY-----\n", "JSON object"},
		{"d of another key", with(rfcEd25519, `"d":"`+rfcP256D+`"`), "not those of d"},
		{"d of another key of P-256", with(rfcP256, `"d":"`+rfcEd25519D+`"`), "not those of d"},
		{"d a byte short", with(rfcEd25519, `"d":"`+rfcEd25519D[:42]+`"`), "32 bytes"},
		{"d a number", with(rfcEd25519, `"d":1`), "32 bytes"},
		{"d zero", with(rfcP256, `"d":"`+encode(make([]byte, 32))+`"`), "no private key of P-256"},
		{"d the order", with(rfcP256, `"d":"`+order+`"`), "no private key of P-256"},
		{"d twice", with(rfcP256, `"d":"`+rfcP256D+`","d":"`+rfcP256D+`"`), "JSON object"},
		{"no public members", `{"kty":"OKP","crv":"Ed25519","d":"` + rfcEd25519D + `"}`, "32 bytes"},
		{"key_ops without sign", with(rfcEd25519, `"d":"`+rfcEd25519D+`","key_ops":["verify"]`), "key_ops"},
		{"members of RSA", with(rfcEd25519, `"d":"`+rfcEd25519D+`","p":"AQ"`), "another kind"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := jose.ParsePrivateKey([]byte(test.jwk))
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), rfcEd25519D[:8]) || strings.Contains(err.Error(), rfcP256D[:8]) {
				t.Errorf("%q does not say %q, or discloses the key", err, test.want)
			}
		})
	}
}

// However a private key gets into a log or an answer, the secret does not.
func TestPrivateKeyIsNotPrinted(t *testing.T) {
	t.Parallel()
	for algorithm, d := range map[string]string{jose.EdDSA: rfcEd25519D, jose.ES256: rfcP256D} {
		p, secret := privateKey(t, algorithm), undo(t, d)
		if !discloses(string(p.JWK()), secret) {
			t.Fatal("the test does not find a secret")
		}
		var b strings.Builder
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&b, verb+" "+verb+" "+verb+"\n", p, struct{ Key *jose.PrivateKey }{p}, struct{ key jose.PrivateKey }{*p})
		}
		slog.New(slog.NewTextHandler(&b, nil)).Info("key", "key", p)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("key", "key", p)
		for _, v := range []any{p, *p, map[string]any{"key": p}, []jose.PrivateKey{*p}} {
			if _, err := json.Marshal(v); err == nil {
				t.Error("a private key is marshaled")
			}
		}
		if discloses(b.String(), secret) {
			t.Errorf("%s: the secret is printed: %s", algorithm, b.String())
		}
		if !strings.Contains(b.String(), "private key "+p.Key().Thumbprint) {
			t.Error("the thumbprint is not printed")
		}
	}
}

// signer is a key in a KMS.
type signer struct {
	*jose.PrivateKey
	sign func(input string) ([]byte, error)
}

func (s signer) Sign(_ context.Context, input string) ([]byte, error) { return s.sign(input) }

// A signer that returns anything but a signature of its key is found when it signs.
func TestSignVerifiesItsSigner(t *testing.T) {
	t.Parallel()
	down := errors.New("the KMS is down")
	for _, algorithm := range algorithms {
		p := privateKey(t, algorithm)
		other, err := jose.GenerateKey(algorithm)
		must(t, err)
		right := func(input string) []byte {
			signature, err := p.Sign(t.Context(), input)
			must(t, err)
			return signature
		}
		compact, err := jose.Sign(t.Context(), signer{p, func(input string) ([]byte, error) { return right(input), nil }}, "a+jwt", []byte(`{}`))
		must(t, err)
		if h := parse(t, compact).Header; h.KeyID != p.Key().Thumbprint || h.Type != "a+jwt" || h.Algorithm != algorithm || h.JWK != nil || h.Others != 0 {
			t.Errorf("%+v", h)
		}
		for name, sign := range map[string]func(string) ([]byte, error){
			"another key":   func(input string) ([]byte, error) { return other.Sign(t.Context(), input) },
			"nothing":       func(string) ([]byte, error) { return nil, nil },
			"other bytes":   func(input string) ([]byte, error) { return right(input + " "), nil },
			"a byte more":   func(input string) ([]byte, error) { return append(right(input), 0), nil },
			"DER":           func(input string) ([]byte, error) { return der(t, right(input)), nil },
			"its own fault": func(string) ([]byte, error) { return nil, down },
		} {
			_, err := jose.Sign(t.Context(), signer{p, sign}, "a+jwt", []byte(`{}`))
			if err == nil || !strings.Contains(err.Error(), p.Key().Thumbprint) || errors.Is(err, down) != (name == "its own fault") {
				t.Errorf("%s from %s: %v", name, algorithm, err)
			}
		}
	}
}

// der is a signature as a KMS returns one of ECDSA.
func der(t *testing.T, signature []byte) []byte {
	b, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])})
	must(t, err)
	return b
}
