package seal_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/crypto/seal"
)

func parse(t testing.TB, b []byte) seal.Master {
	t.Helper()
	m, err := seal.ParseMaster(b)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSealIsBoundToItsPlace(t *testing.T) {
	t.Parallel()
	master, salt := seal.NewMaster(), seal.NewSalt()
	key := master.Key(salt)
	secret := []byte("svc_9d61b19deffd5a60ba844af492ec2cc4")
	sealed := key.Seal(secret, "api_key\n1\n7")
	if bytes.Contains(sealed, secret[:8]) || len(sealed) != len(secret)+29 || bytes.Equal(sealed, key.Seal(secret, "api_key\n1\n7")) {
		t.Errorf("sealed %x", sealed)
	}
	if back, err := parse(t, master.Bytes()).Key(salt).Open(sealed, "api_key\n1\n7"); err != nil || !bytes.Equal(back, secret) {
		t.Errorf("opened %q, %v", back, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"another place":         func() ([]byte, error) { return key.Open(sealed, "api_key\n2\n7") },
		"another salt":          func() ([]byte, error) { return master.Key(seal.NewSalt()).Open(sealed, "api_key\n1\n7") },
		"another master key":    func() ([]byte, error) { return seal.NewMaster().Key(salt).Open(sealed, "api_key\n1\n7") },
		"nothing":               func() ([]byte, error) { return key.Open(nil, "api_key\n1\n7") },
		"a secret in plaintext": func() ([]byte, error) { return key.Open(secret, "api_key\n1\n7") },
	} {
		if back, err := open(); !errors.Is(err, seal.ErrSealed) || back != nil {
			t.Errorf("%s: %q, %v", name, back, err)
		}
	}
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if _, err := key.Open(changed, "api_key\n1\n7"); !errors.Is(err, seal.ErrSealed) {
				t.Fatalf("byte %d, bit %d changed: %v", i, bit, err)
			}
		}
		if _, err := key.Open(sealed[:i], "api_key\n1\n7"); !errors.Is(err, seal.ErrSealed) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// The figures were computed with other programs (Python's hmac by RFC 5869, and OpenSSL's AES-GCM),
// so that a change of the derivation shows.
func TestDerivation(t *testing.T) {
	t.Parallel()
	master := parse(t, bytes.Repeat([]byte{7}, seal.MasterSize))
	if got, want := master.ID(), "007557ff9b665cd9"; got != want {
		t.Errorf("key id %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(master.VerifiedKey([16]byte(bytes.Repeat([]byte{9}, 16)))), "e4885f9cc6c5bd461589f96c26e8c81e26776f9bcb47425f743eac5768031a21"; got != want {
		t.Errorf("key of the MAC over what was verified %s, want %s", got, want)
	}
	sealed, err := hex.DecodeString("010505050505050505050505052bbf159824fbaf2b86216c6568ace1e96bdc9505bf50")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := master.Key(bytes.Repeat([]byte{9}, seal.SaltSize)).Open(sealed, "setting\n0\nsample"); err != nil || string(got) != "secret" {
		t.Errorf("opened %q, %v", got, err)
	}
}

func TestMasterKeyIsNotPrinted(t *testing.T) {
	t.Parallel()
	master := seal.NewMaster()
	for _, form := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		text := fmt.Sprintf(form, master)
		for _, spelt := range []string{string(master.Bytes()), hex.EncodeToString(master.Bytes()), fmt.Sprint(master.Bytes())} {
			if strings.Contains(text, strings.Trim(spelt, "[]")) {
				t.Errorf("%s prints the key", form)
			}
		}
	}
}

func TestParseMaster(t *testing.T) {
	t.Parallel()
	raw := seal.NewMaster().Bytes()
	text := base64.StdEncoding.EncodeToString(raw)
	for _, good := range []string{string(raw), text, text + "\n", text + "\r\n"} {
		if m, err := seal.ParseMaster([]byte(good)); err != nil || !bytes.Equal(m.Bytes(), raw) {
			t.Errorf("%d bytes: %v", len(good), err)
		}
	}
	for _, bad := range []string{"", string(raw[:31]), string(raw) + "\n", text[:43], text + "\n\n", " " + text, strings.Repeat("*", 44), hex.EncodeToString(raw)} {
		if _, err := seal.ParseMaster([]byte(bad)); err == nil || strings.Contains(err.Error(), text[:8]) {
			t.Errorf("%d bytes: %v", len(bad), err)
		}
	}
}

func FuzzParseMaster(f *testing.F) {
	f.Add(bytes.Repeat([]byte{7}, 32))
	f.Add([]byte("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := seal.ParseMaster(b)
		if err == nil && !bytes.Equal(m.Bytes(), b) {
			if text := base64.StdEncoding.EncodeToString(m.Bytes()); strings.TrimRight(string(b), "\r\n") != text {
				t.Errorf("%q was taken for %s", b, text)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	key := seal.NewMaster().Key(seal.NewSalt())
	f.Add(key.Seal([]byte("secret"), "place")[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := key.Open(b, "place"); err == nil {
			t.Errorf("%x was opened", b)
		}
	})
}
