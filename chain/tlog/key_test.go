package tlog_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"attestd/chain/tlog"
)

// The example of c2sp.org/signed-note.
func TestVKeyExampleOfStandard(t *testing.T) {
	t.Parallel()
	const text = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
	k, err := tlog.ParseVKey(text)
	if err != nil || k.Name != "example.com/foo" || k.Type != tlog.TypeEd25519 || k.ID() != 0x530d903a || k.String() != text {
		t.Fatalf("%+v, %v", k, err)
	}
}

// Our vkeys are those of x/mod and, for cosigners, of torchwood.
func TestVKeyAgreesWithNoteAndTorchwood(t *testing.T) {
	t.Parallel()
	want, err := note.NewEd25519VerifierKey(origin, vkey.Public)
	if err != nil || vkey.String() != want {
		t.Errorf("vkey %s, want %s", vkey, want)
	}
	signer, err := torchwood.NewCosignatureSigner("witness.example/w1", key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := tlog.ParseVKey(signer.Verifier().String())
	if err != nil || k.Type != tlog.TypeCosignature || k.Name != "witness.example/w1" || k.ID() != signer.KeyHash() || !k.Public.Equal(vkey.Public) {
		t.Errorf("cosigner %s is read as %+v: %v", signer.Verifier(), k, err)
	}
}

func TestVKeyRefused(t *testing.T) {
	t.Parallel()
	good := vkey.String()
	hash, b64 := good[len(origin)+1:len(origin)+9], good[len(origin)+10:]
	named := func(name string) string { return tlog.VKey{Name: name, Type: 1, Public: vkey.Public}.String() }
	for name, text := range map[string]string{
		"nothing":                    "",
		"no key":                     origin + "+" + hash,
		"another key ID":             origin + "+00000000+" + b64,
		"a key ID in capitals":       origin + "+" + strings.ToUpper(hash) + "+" + b64,
		"a key ID with a sign":       origin + "+-" + hash[1:] + "+" + b64,
		"another name":               "x" + good,
		"no name":                    named(""),
		"a name with a space":        named("log example"),
		"a name with a wide space":   named("log\u2003example"),
		"a name with a +":            named("log+example"),
		"a name with a line break":   named("log\nexample"),
		"a name with a control":      named("log\x01example"),
		"a name that is no UTF-8":    named("log\xffexample"),
		"a name of 256 bytes":        named(strings.Repeat("n", 256)),
		"an unknown type":            tlog.VKey{Name: origin, Type: 2, Public: vkey.Public}.String(),
		"a short key":                tlog.VKey{Name: origin, Type: 1, Public: vkey.Public[:31]}.String(),
		"a long key":                 tlog.VKey{Name: origin, Type: 1, Public: append(bytes.Clone(vkey.Public), 0)}.String(),
		"a line break in the base64": good[:len(good)-4] + "\n" + good[len(good)-4:],
		"a line break at the end":    good + "\n",
		"a part more":                good + "+",
		"base64url":                  strings.NewReplacer("+", "-", "/", "_").Replace(good),
	} {
		if k, err := tlog.ParseVKey(text); !errors.Is(err, tlog.ErrMalformed) {
			t.Errorf("%s: %q is accepted as %+v: %v", name, text, k, err)
		}
	}
	if k, err := tlog.ParseVKey(named(strings.Repeat("n", 255))); err != nil || len(k.Name) != 255 {
		t.Errorf("a name of 255 bytes: %v", err)
	}
}

// String restores every vkey that parses, and package note reads the same from those of its type.
func FuzzVKey(f *testing.F) {
	f.Add(vkey.String())
	f.Add(fmt.Sprintf("n+%08x+%s", 1, base64.StdEncoding.EncodeToString(make([]byte, 33))))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := tlog.ParseVKey(text)
		if err != nil {
			return
		}
		if k.String() != text {
			t.Errorf("%q is read as %q", text, k)
		}
		v, err := note.NewVerifier(text)
		if k.Type == tlog.TypeEd25519 && (err != nil || v.Name() != k.Name || v.KeyHash() != k.ID()) {
			t.Errorf("%q: x/mod says %v", text, err)
		}
	})
}
