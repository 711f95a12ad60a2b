package keys_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"attestd/crypto/keys"
)

// RFC 8037 appendix A.2 publishes the key of RFC 8032 TEST 1 as a JWK.
func TestRFC8037(t *testing.T) {
	t.Parallel()
	public := keys.Describe(unhex(t, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"))
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	got, err := json.Marshal(public.JWK)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"` + public.KID + `","alg":"EdDSA","use":"sig"}`
	if string(got) != want {
		t.Errorf("JWK  %s\nwant %s", got, want)
	}

	// Appendix A.3: its thumbprint (RFC 7638) is the hash of the required members in lexical order.
	// A client that computes it from our JWK must find the published one.
	thumbprint := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":%q,"x":%q}`, public.JWK.Crv, public.JWK.Kty, public.JWK.X))
	if got, want := base64.RawURLEncoding.EncodeToString(thumbprint[:]), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"; got != want {
		t.Errorf("thumbprint %s, want %s", got, want)
	}
}

// All forms are computed here a second way: the SPKI DER of RFC 8410 is a fixed prefix before the
// 32 bytes of the key.
func TestDescribe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), ed25519.SeedSize, ed25519.SeedSize).Draw(t, "seed")
		key := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
		public := keys.Describe(key)

		der := append([]byte{0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00}, key...)
		sum := sha256.Sum256(der)
		if want := fmt.Sprintf("%x", sum)[:16]; public.KID != want || public.JWK.Kid != want {
			t.Fatalf("kid %s and %s, want %s", public.KID, public.JWK.Kid, want)
		}
		if want := "SHA256:" + base64.RawURLEncoding.EncodeToString(sum[:]); public.Fingerprint != want {
			t.Fatalf("fingerprint %s, want %s", public.Fingerprint, want)
		}
		block, rest := pem.Decode([]byte(public.PEM))
		if block == nil || block.Type != "PUBLIC KEY" || len(rest) > 0 || !bytes.Equal(block.Bytes, der) {
			t.Fatalf("PEM %q", public.PEM)
		}
		if parsed, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil || !key.Equal(parsed) {
			t.Fatalf("the PEM holds %v, %v", parsed, err)
		}
		if x, err := base64.RawURLEncoding.DecodeString(public.JWK.X); err != nil || !bytes.Equal(x, key) {
			t.Fatalf("x holds %x, %v", x, err)
		}
	})
}

func TestDescribeRefusesOtherLengths(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a key of 31 bytes is described")
		}
	}()
	keys.Describe(make([]byte, 31))
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^svc_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	var union, common [32]byte
	for n := range 1000 {
		secret := keys.NewSecret("svc")
		if !form.MatchString(secret) || seen[secret] {
			t.Fatalf("secret %d is %q (seen before: %v)", n, secret, seen[secret])
		}
		seen[secret] = true
		random, err := base64.RawURLEncoding.DecodeString(secret[len("svc_"):])
		if err != nil || len(random) != 32 {
			t.Fatalf("%q holds %d bytes, %v", secret, len(random), err)
		}
		for i, b := range random {
			if n == 0 {
				common[i] = b
			}
			union[i] |= b
			common[i] &= b
		}
	}
	// Each of the 256 bits has been both 1 and 0.
	if union != [32]byte(bytes.Repeat([]byte{0xff}, 32)) || common != [32]byte{} {
		t.Errorf("bits that never change: %x, %x", union, common)
	}
}

func TestHashSecret(t *testing.T) {
	t.Parallel()
	// FIPS 180-4, the example "abc".
	if got, want := fmt.Sprintf("%x", keys.HashSecret("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Tokens that are issued together have adjacent hashes, in the order of their issue, and
// nothing else of a token can be derived from its hash.
func TestTokenHashBeginsWithTime(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^oauth_[A-Za-z0-9_-]{48}$`)
	at := time.UnixMilli(1767355200123)
	var last [32]byte
	for n := range 100 {
		issued := at.Add(time.Duration(n) * time.Millisecond)
		token, other := keys.NewToken(issued), keys.NewToken(issued)
		hash := keys.HashSecret(token)
		if !form.MatchString(token) || token == other || token[12:] == other[12:] {
			t.Fatalf("%q and %q", token, other)
		}
		if sum := sha256.Sum256([]byte(token)); !bytes.Equal(hash[4:], sum[:28]) || binary.BigEndian.Uint32(hash[:4]) != uint32(issued.UnixMilli()) {
			t.Fatalf("%q has the hash %x", token, hash)
		}
		if again := keys.HashSecret(other); bytes.Compare(last[:], hash[:]) >= 0 || again == hash || !bytes.Equal(again[:4], hash[:4]) {
			t.Fatalf("%x after %x", hash, last)
		}
		last = hash
	}
	token := keys.NewToken(at)
	for _, other := range []string{
		token[:len(token)-1], token + "A", "svc_" + token[6:] + "AA", strings.ToUpper(token[:6]) + token[6:], token[:20] + "!" + token[21:], "oauth_" + strings.Repeat("A", 43), "",
	} {
		if got := keys.HashSecret(other); got != sha256.Sum256([]byte(other)) {
			t.Errorf("%q has the hash %x", other, got)
		}
	}
	// as programs before made them
	if made := keys.NewSecret("oauth"); keys.HashSecret(made) != sha256.Sum256([]byte(made)) {
		t.Error("the hash of an existing token has changed")
	}
}

func BenchmarkDescribe(b *testing.B) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	for b.Loop() {
		keys.Describe(key)
	}
}

func BenchmarkNewSecret(b *testing.B) {
	for b.Loop() {
		keys.NewSecret("svc")
	}
}
