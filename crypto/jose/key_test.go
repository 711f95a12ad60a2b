package jose_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"testing"

	"attestd/crypto/jose"
	"attestd/internal/must"
)

// The form in which a key is stored is the text that RFC 7638 hashes, whatever other members it
// had.
func TestKeyHasOneForm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, jwk, want string }{
		{"Ed25519", rfcEd25519, `{"crv":"Ed25519","kty":"OKP","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`},
		{"members that are ignored", with(rfcEd25519, `"kid":"mine","ext":true,"x5t":"spoilt","other":{"d":1}`), ""},
		{"what it may be for", with(rfcEd25519, `"use":"sig","key_ops":["verify"],"alg":"EdDSA"`), ""},
		{"the newer name of its algorithm", with(rfcEd25519, `"alg":"Ed25519"`), ""},
		{"escapes and white space", "\n" + strings.Replace(rfcEd25519, `"kty":"OKP"`, `"k\u0074y" : "\u004fKP"`, 1) + " ", ""},
		{"P-256", rfcP256, `{"crv":"P-256","kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
			`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`},
		{"P-256 with its algorithm", with(rfcP256, `"alg":"ES256","key_ops":["sign","verify"]`), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k := parseKey(t, test.jwk)
			want := test.want
			if want == "" {
				want = parseKey(t, map[string]string{jose.EdDSA: rfcEd25519, jose.ES256: rfcP256}[k.Algorithm]).JWK()
			}
			marshaled, err := json.Marshal(k)
			must.OK(t, err)
			if k.JWK() != want || string(marshaled) != want {
				t.Errorf("%s, want %s", k.JWK(), want)
			}
			sum := crypto.SHA256.New()
			sum.Write([]byte(want))
			if k.Thumbprint != encode(sum.Sum(nil)) || !jose.IsThumbprint(k.Thumbprint) {
				t.Errorf("thumbprint %s", k.Thumbprint)
			}
		})
	}
}

// smallOrder are the canonical encodings of the eight points of small order, and what other
// encodings decode to them.
var smallOrder = []string{
	"0100000000000000000000000000000000000000000000000000000000000000",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"0000000000000000000000000000000000000000000000000000000000000000",
	"0000000000000000000000000000000000000000000000000000000000000080",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"0100000000000000000000000000000000000000000000000000000000000080",
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
}

func TestRefusesKeysForWhichEverybodyCanSign(t *testing.T) {
	t.Parallel()
	// R is the key itself and S is 0: for the neutral point that is a signature of everything.
	forged := append(unhex(t, smallOrder[0]), make([]byte, 32)...)
	if !ed25519.Verify(unhex(t, smallOrder[0]), []byte("anything"), forged) {
		t.Error("the danger that this test is about is gone")
	}
	for _, point := range smallOrder {
		if _, err := jose.ParseKey([]byte(`{"kty":"OKP","crv":"Ed25519","x":"` + encode(unhex(t, point)) + `"}`)); err == nil {
			t.Errorf("%s is accepted", point)
		}
		if _, err := jose.NewKey(ed25519.PublicKey(unhex(t, point))); err == nil {
			t.Errorf("NewKey accepts %s", point)
		}
	}
}

// Inputs that are no public key of an agent, each with a part of its error.
func TestRefusesJWK(t *testing.T) {
	t.Parallel()
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	okp := func(x string) string { return `{"kty":"OKP","crv":"Ed25519","x":"` + x + `"}` }
	const p256X, p256Y = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
	ec := func(x, y string) string { return `{"kty":"EC","crv":"P-256","x":"` + x + `","y":"` + y + `"}` }
	// p, the order of the field of P-256: 0 in another spelling
	const prime = "_____wAAAAEAAAAAAAAAAAAAAAD_______________8"
	for _, test := range []struct{ name, jwk, want string }{
		{"nothing", ``, "JSON object"},
		{"null", `null`, "JSON object"},
		{"a list", `[` + rfcEd25519 + `]`, "JSON object"},
		{"a string", `"spoilt"`, "JSON object"},
		{"something behind it", rfcEd25519 + "x", "JSON object"},
		{"a member twice", with(rfcEd25519, `"x":"`+x+`"`), "JSON object"},
		{"a member twice in another spelling", with(rfcEd25519, `"\u0078":"`+x+`"`), "JSON object"},
		{"a member twice within a member", with(rfcEd25519, `"other":{"spoilt":1,"spoilt":2}`), "JSON object"},
		{"bad UTF-8", with(rfcEd25519, "\"kid\":\"\xff\""), "JSON object"},
		{"a lone surrogate", with(rfcEd25519, `"kid":"\ud800"`), "JSON object"},
		{"too deep", with(rfcEd25519, `"other":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)), "JSON object"},
		{"too long", with(rfcEd25519, `"kid":"`+strings.Repeat("k", 4096)+`"`), "longer than 4096"},
		{"no members", `{}`, "kty"},
		{"no kty", `{"crv":"Ed25519","x":"` + x + `"}`, "kty"},
		{"no crv", `{"kty":"OKP","x":"` + x + `"}`, "kty"},
		{"kty in another case", `{"kty":"okp","crv":"Ed25519","x":"` + x + `"}`, "kty"},
		{"kty a list", `{"kty":["OKP"],"crv":"Ed25519","x":"` + x + `"}`, "kty"},
		{"the curve of another kind", `{"kty":"EC","crv":"Ed25519","x":"` + x + `"}`, "kty"},
		{"the kind of another curve", `{"kty":"OKP","crv":"P-256","x":"` + x + `"}`, "kty"},
		{"X25519", `{"kty":"OKP","crv":"X25519","x":"` + x + `"}`, "kty"},
		{"Ed448", `{"kty":"OKP","crv":"Ed448","x":"` + x + `"}`, "kty"},
		{"secp256k1", strings.Replace(rfcP256, "P-256", "secp256k1", 1), "kty"},
		{"a secret", `{"kty":"oct","k":"spoilt"}`, "private or secret"},
		{"a private key", with(rfcEd25519, `"d":"`+rfcEd25519D+`"`), "private or secret"},
		{"a private key of P-256", with(rfcP256, `"d":"`+rfcP256D+`"`), "private or secret"},
		{"d null", with(rfcEd25519, `"d":null`), "private or secret"},
		{"d in another spelling", with(rfcEd25519, `"\u0064":"spoilt"`), "private or secret"},
		{"k", with(rfcEd25519, `"k":"spoilt"`), "private or secret"},
		{"p", with(rfcP256, `"p":"spoilt"`), "private or secret"},
		{"oth", with(rfcP256, `"oth":[]`), "private or secret"},
		{"y beside OKP", with(rfcEd25519, `"y":"`+p256Y+`"`), "another kind"},
		{"n beside EC", with(rfcP256, `"n":"spoilt"`), "another kind"},
		{"e beside OKP", with(rfcEd25519, `"e":"AQAB"`), "another kind"},
		{"no x", `{"kty":"OKP","crv":"Ed25519"}`, "32 bytes"},
		{"x null", `{"kty":"OKP","crv":"Ed25519","x":null}`, "32 bytes"},
		{"x empty", okp(""), "32 bytes"},
		{"a byte short", okp(x[:42]), "32 bytes"},
		{"a byte more", okp(x + "AA"), "32 bytes"},
		{"padding", okp(x + "="), "32 bytes"},
		{"stray bits", okp(x[:42] + "p"), "32 bytes"},
		{"the alphabet of base64", okp(strings.ReplaceAll(x, "_", "/")), "32 bytes"},
		{"a line break", okp(x[:20] + `\n` + x[20:]), "32 bytes"},
		{"not on the curve", okp(encode(append([]byte{2}, make([]byte, 31)...))), "point on Ed25519"},
		{"another encoding of a point", okp(encode(append([]byte{0xf0}, append(allOnes(30), 0x7f)...))), "point on Ed25519"},
		{"no y", `{"kty":"EC","crv":"P-256","x":"` + p256X + `"}`, "32 bytes"},
		{"y a byte short", ec(p256X, p256Y[:42]), "32 bytes"},
		{"leading zeros left out", ec(p256X, encode(make([]byte, 31))), "32 bytes"},
		{"not on P-256", ec(p256X, p256X), "point on P-256"},
		{"x and y changed over", ec(p256Y, p256X), "point on P-256"},
		{"the point at infinity", ec(encode(make([]byte, 32)), encode(make([]byte, 32))), "point on P-256"},
		{"a coordinate of the order of the field", ec(prime, p256Y), "point on P-256"},
		{"alg of another kind", with(rfcEd25519, `"alg":"ES256"`), "alg"},
		{"alg of another kind", with(rfcP256, `"alg":"EdDSA"`), "alg"},
		{"alg none", with(rfcP256, `"alg":"none"`), "alg"},
		{"alg null", with(rfcP256, `"alg":null`), "alg"},
		{"for encryption", with(rfcP256, `"use":"enc"`), "use"},
		{"use null", with(rfcP256, `"use":null`), "use"},
		{"key_ops without verify", with(rfcP256, `"key_ops":["deriveKey"]`), "key_ops"},
		{"key_ops empty", with(rfcP256, `"key_ops":[]`), "key_ops"},
		{"key_ops twice the same", with(rfcP256, `"key_ops":["verify","verify"]`), "key_ops"},
		{"key_ops a string", with(rfcP256, `"key_ops":"verify"`), "key_ops"},
		{"key_ops null", with(rfcP256, `"key_ops":null`), "key_ops"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k, err := jose.ParseKey([]byte(test.jwk))
			if err == nil {
				t.Fatalf("accepted as %s", k.JWK())
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q does not say %q", err, test.want)
			}
			for _, part := range []string{"spoilt", rfcEd25519D, rfcP256D, x[:8], p256X[:8]} {
				if strings.Contains(err.Error(), part) {
					t.Errorf("%q has a part of the key", err)
				}
			}
		})
	}
}

func allOnes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = 0xff
	}
	return b
}

// A public key out of a KMS or a TPM becomes the same key as its JWK does.
func TestNewKey(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		p, err := jose.GenerateKey(algorithm)
		must.OK(t, err)
		k, err := jose.NewKey(parsedByOthers(t, p.Key().JWK()))
		must.OK(t, err)
		if k.JWK() != p.Key().JWK() || k.Thumbprint != p.Key().Thumbprint || k.Algorithm != algorithm {
			t.Errorf("%s becomes %s", p.Key().JWK(), k.JWK())
		}
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must.OK(t, err)
	for _, other := range []crypto.PublicKey{nil, "spoilt", ed25519.PublicKey{1}, (*ecdsa.PublicKey)(nil), &ecdsa.PublicKey{}, &p384.PublicKey} {
		if _, err := jose.NewKey(other); err == nil {
			t.Errorf("%T is accepted", other)
		}
	}
}

// A generated key comes back from its file, and signs the same.
func TestPrivateKeyRoundTrip(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		p, err := jose.GenerateKey(algorithm)
		must.OK(t, err)
		file := p.JWK()
		if strings.Count(string(file), "\n") != 1 || !strings.HasSuffix(string(file), "}\n") {
			t.Errorf("%s: not one line", algorithm)
		}
		again, err := jose.ParsePrivateKey(file)
		must.OK(t, err)
		if string(again.JWK()) != string(file) || again.Key().Thumbprint != p.Key().Thumbprint {
			t.Errorf("%s: comes back as another key", algorithm)
		}
		compact, err := jose.Sign(context.Background(), again, "a+jwt", []byte(`{}`))
		must.OK(t, err)
		must.OK(t, p.Key().Verify(parse(t, compact)))
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
		must.OK(t, err)
		right := func(input string) []byte {
			signature, err := p.Sign(t.Context(), input)
			must.OK(t, err)
			return signature
		}
		compact, err := jose.Sign(t.Context(), signer{p, func(input string) ([]byte, error) { return right(input), nil }}, "a+jwt", []byte(`{}`))
		must.OK(t, err)
		if h := parse(t, compact).Header; h.KeyID != p.Key().Thumbprint || h.Type != "a+jwt" || h.Algorithm != algorithm || h.JWK != nil || h.Extra != 0 {
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
	must.OK(t, err)
	return b
}
