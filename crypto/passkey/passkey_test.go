package passkey_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"

	"attestd/crypto/passkey"
	"attestd/crypto/passkey/passkeytest"
	"attestd/internal/must"
)

const (
	origin = "https://attestd.example"
	rpID   = "attestd.example"
)

var (
	challenge = bytes.Repeat([]byte{7}, 32)
	encoded   = base64.RawURLEncoding.EncodeToString(challenge)
	expected  = passkey.Expected{RPID: rpID, Origins: []string{"http://localhost:8080", origin}, Challenge: challenge}
)

func TestVerify(t *testing.T) {
	t.Parallel()
	for _, algorithm := range passkeytest.Algorithms {
		a := passkeytest.New(t, algorithm)
		a.Flags |= passkey.BackupEligible | passkey.BackedUp
		key := a.Key(t)
		flags, err := key.Verify(a.Get(t, origin, rpID, challenge), expected)
		if err != nil || flags != a.Flags {
			t.Errorf("%d: %x, %v", algorithm, flags, err)
		}
		again, err := passkey.ParseKey(key.COSE())
		if err != nil || again.Fingerprint() != key.Fingerprint() || again.Algorithm() != algorithm {
			t.Errorf("%d: read again it is %v, %v", algorithm, again, err)
		}
	}
}

// Each demand of the package comment, and what an assertion says that does not meet it.
func TestRefuses(t *testing.T) {
	t.Parallel()
	client := func(change ...string) []byte {
		return []byte(strings.NewReplacer(change...).Replace(string(passkeytest.ClientData("webauthn.get", origin, challenge))))
	}
	sum := sha256.Sum256([]byte(rpID))
	data := func(flags byte, more ...byte) []byte {
		return append(append(sum[:len(sum):len(sum)], flags, 0, 0, 0, 0), more...)
	}
	good := data(0x05)
	for _, c := range []struct {
		name         string
		client, data []byte
		want         string
	}{
		{"of an enrolment", passkeytest.ClientData("webauthn.create", origin, challenge), good, "type"},
		{"of another challenge", passkeytest.ClientData("webauthn.get", origin, challenge[:31]), good, "challenge"},
		{"with a padded challenge", client(encoded, encoded+"="), good, "challenge"},
		{"of another origin", client(origin, origin+".evil.example"), good, "origin"},
		{"of another scheme", client("https:", "http:"), good, "origin"},
		{"of another port", client(origin, origin+":8443"), good, "origin"},
		{"in a frame", client("false", "true"), good, "frame"},
		{"in a frame, as text", client("false", `"false"`), good, "frame"},
		{"with a page above", client("}", `,"topOrigin":"https://evil.example"}`), good, "frame"},
		{"with a member twice", client("}", `,"type":"webauthn.get"}`), good, "duplicate"},
		{"with more behind it", client("}", "} "+"{}"), good, "duplicate"},
		{"that is too long", client("}", `,"x":"`+strings.Repeat("x", passkey.MaxClientData)+`"}`), good, "long"},
		{"of another relying party", client(), append(make([]byte, 32), 5, 0, 0, 0, 0), "rpIdHash"},
		{"without a person", client(), data(0x04), "UP"},
		{"without verification", client(), data(0x01), "UV"},
		{"backed up, and not eligible", client(), data(0x15), "BS"},
		{"with a key", client(), data(0x45), "enrolment"},
		{"with unnamed extensions", client(), data(0x05, 0xa0), "ED"},
		{"with missing extensions", client(), data(0x85), "ED"},
		{"too short", client(), good[:36], "short"},
		{"too long", client(), data(0x85, make([]byte, passkey.MaxAuthenticatorData)...), "long"},
	} {
		for _, algorithm := range passkeytest.Algorithms {
			a := passkeytest.New(t, algorithm)
			if _, err := a.Key(t).Verify(a.Sign(t, c.client, c.data), expected); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s (%d): %v", c.name, algorithm, err)
			}
		}
	}
	a := passkeytest.New(t, passkey.ES256)
	if _, err := a.Key(t).Verify(a.Sign(t, client("}", `,"other":{"a":1}}`), data(0x85, 0xa0)), expected); err != nil {
		t.Errorf("with other members and extensions: %v", err)
	}
	if _, err := a.Key(t).Verify(a.Get(t, origin, rpID, nil), passkey.Expected{RPID: rpID, Origins: []string{origin}}); err == nil {
		t.Error("without a challenge it is valid")
	}
}

// No bit of what was signed, nor of the signature, can be another one.
func TestEachBitCounts(t *testing.T) {
	t.Parallel()
	for _, algorithm := range passkeytest.Algorithms {
		a := passkeytest.New(t, algorithm)
		key, made := a.Key(t), a.Get(t, origin, rpID, challenge)
		for _, part := range []*[]byte{&made.AuthenticatorData, &made.ClientDataJSON, &made.Signature} {
			for i := range *part {
				(*part)[i] ^= 1 << (i % 8)
				if _, err := key.Verify(made, expected); err == nil {
					t.Errorf("%d: byte %d of %d can be changed", algorithm, i, len(*part))
				}
				(*part)[i] ^= 1 << (i % 8)
			}
		}
		if _, err := passkeytest.New(t, algorithm).Key(t).Verify(made, expected); (err == nil) != (algorithm == passkey.RS256) {
			t.Errorf("%d: with another key: %v", algorithm, err) // tests share one of RS256
		}
	}
}

// The signature of ES256 is DER, unlike that of a token, and has one spelling.
func TestSignatureOfES256IsDER(t *testing.T) {
	t.Parallel()
	a := passkeytest.New(t, passkey.ES256)
	made := a.Get(t, origin, rpID, challenge)
	var numbers struct{ R, S *big.Int }
	_, err := asn1.Unmarshal(made.Signature, &numbers)
	must.OK(t, err)
	raw := append(numbers.R.FillBytes(make([]byte, 32)), numbers.S.FillBytes(make([]byte, 32))...)
	for name, signature := range map[string][]byte{"r and s": raw, "more behind": append(bytes.Clone(made.Signature), 0), "none": nil} {
		made.Signature = signature
		if _, err := a.Key(t).Verify(made, expected); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

func TestRefusesKeys(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must.OK(t, err)
	rsaKey := passkeytest.New(t, passkey.RS256).Key(t).Public().(*rsa.PublicKey)
	for name, public := range map[string]any{
		"P-384": p384.Public(), "short Ed25519": ed25519.PublicKey(make([]byte, 31)), "small order": ed25519.PublicKey(append([]byte{1}, make([]byte, 31)...)),
		"exponent 3": &rsa.PublicKey{N: rsaKey.N, E: 3}, "RSA of 1024 bits": &rsa.PublicKey{N: new(big.Int).SetBit(new(big.Int).Rsh(rsaKey.N, 1024), 0, 1), E: 65537},
		"even modulus": &rsa.PublicKey{N: new(big.Int).SetBit(rsaKey.N, 0, 0), E: 65537}, "RSA of 8192 bits": &rsa.PublicKey{N: new(big.Int).Lsh(rsaKey.N, 6144), E: 65537}, "text": "key", "none": nil,
	} {
		if _, err := passkey.NewKey(public); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, algorithm := range passkeytest.Algorithms {
		cose := passkeytest.New(t, algorithm).Key(t).COSE()
		for n := range cose {
			if _, err := passkey.ParseKey(cose[:n]); err == nil {
				t.Errorf("%d: %d of %d bytes are a key", algorithm, n, len(cose))
			}
		}
		if _, err := passkey.ParseKey(append(bytes.Clone(cose), 0)); err == nil {
			t.Errorf("%d: a key with a byte more is taken", algorithm)
		}
	}
}

// FuzzParseKey holds that whatever passes has one form.
func FuzzParseKey(f *testing.F) {
	for _, algorithm := range passkeytest.Algorithms {
		f.Add(passkeytest.New(f, algorithm).Key(f).COSE())
	}
	f.Fuzz(func(t *testing.T, cose []byte) {
		key, err := passkey.ParseKey(cose)
		if err != nil {
			return
		}
		again, err := passkey.NewKey(key.Public())
		if err != nil || !bytes.Equal(again.COSE(), cose) || again.Fingerprint() != key.Fingerprint() {
			t.Fatalf("%x has no one form: %v", cose, err)
		}
	})
}

// FuzzVerify holds that nothing but what was signed is valid.
func FuzzVerify(f *testing.F) {
	a := passkeytest.New(f, passkey.ES256)
	made, key := a.Get(f, origin, rpID, challenge), a.Key(f)
	f.Add(made.AuthenticatorData, made.ClientDataJSON, made.Signature)
	f.Fuzz(func(t *testing.T, data, client, signature []byte) {
		_, err := key.Verify(&passkey.Assertion{AuthenticatorData: data, ClientDataJSON: client, Signature: signature}, expected)
		if err == nil && !(bytes.Equal(data, made.AuthenticatorData) && bytes.Equal(client, made.ClientDataJSON)) {
			t.Fatalf("valid: %x %s", data, client)
		}
	})
}
