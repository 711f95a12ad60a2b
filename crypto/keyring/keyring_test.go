package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"attestd/crypto/keyring"
	"attestd/crypto/keys"
)

const origin = "example.com/v1/log/0123456789abcdef0123456789abcdef"

func private(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func public(n byte) ed25519.PublicKey { return private(n).Public().(ed25519.PublicKey) }

// ring is four keys: the third has signed nothing, for the fourth follows it at the same index.
func ring() []keyring.Key {
	ring := []keyring.Key{{Public: public(0), CreatedAt: "t0", EndedAt: "t1"}}
	for i, from := range []int64{5, 9, 9} {
		n := byte(i + 1)
		ring = append(ring, keyring.Key{
			Generation: int64(n), Public: public(n), From: from,
			CreatedAt: "t" + string('0'+n), EndedAt: "t" + string('1'+n),
			Rotation: keyring.Rotate(origin, from, private(n-1), private(n)),
		})
	}
	ring[3].EndedAt = ""
	return ring
}

// The statement and its signatures are what a stranger would make of the documentation.
func TestRotate(t *testing.T) {
	t.Parallel()
	r := keyring.Rotate(origin, 42, private(1), private(2))
	want := "attestd/key-rotation/v2\n" + origin + "\n42\n" + keys.Describe(public(1)).Fingerprint + "\n" + keys.Describe(public(2)).Fingerprint + "\n"
	if r.Statement != want {
		t.Errorf("%q, want %q", r.Statement, want)
	}
	if !ed25519.Verify(public(1), []byte(want), r.OldSignature) || !ed25519.Verify(public(2), []byte(want), r.NewSignature) {
		t.Error("a signature does not verify")
	}
}

// signed is a rotation from key 0 to key 1 at record 5 whose statement is what a text says.
func signed(statement string) *keyring.Rotation {
	text := []byte(statement)
	return &keyring.Rotation{Statement: statement, OldSignature: ed25519.Sign(private(0), text), NewSignature: ed25519.Sign(private(1), text)}
}

// A statement of the first form, which names keys by their kids, proves a rotation as it did; one
// that mixes the forms proves none.
func TestVersion1RotationStatements(t *testing.T) {
	t.Parallel()
	old, next := keys.Describe(public(0)), keys.Describe(public(1))
	for _, c := range []struct {
		version, old, next string
		good               bool
	}{
		{"v1", old.KID, next.KID, true},
		{"v2", old.Fingerprint, next.Fingerprint, true},
		{"v1", old.Fingerprint, next.Fingerprint, false},
		{"v2", old.KID, next.KID, false},
		{"v2", old.KID, next.Fingerprint, false},
		{"v2", old.Fingerprint, next.KID, false},
		{"v3", old.Fingerprint, next.Fingerprint, false},
		{"v2", next.Fingerprint, old.Fingerprint, false},
		{"v2", old.Fingerprint, keys.Describe(public(2)).Fingerprint, false},
		{"v1", old.KID, keys.Describe(public(2)).KID, false},
	} {
		list := ring()[:2]
		list[1].EndedAt, list[1].Rotation = "", signed("attestd/key-rotation/"+c.version+"\n"+origin+"\n5\n"+c.old+"\n"+c.next+"\n")
		if flaws := strings.Join(keyring.Flaws(origin, list), ""); (flaws == "") != c.good {
			t.Errorf("%+v: %q", c, flaws)
		}
	}
}

func TestFlaws(t *testing.T) {
	t.Parallel()
	if flaws := keyring.Flaws(origin, ring()); slices.ContainsFunc(flaws, func(f string) bool { return f != "" }) || len(flaws) != 4 {
		t.Fatalf("%q", flaws)
	}
	foreign := *keyring.Rotate(origin, 5, private(8), private(1))
	for name, c := range map[string]struct {
		change func(r []keyring.Key) []keyring.Key
		at     int // first key that is not proven
		why    string
	}{
		"another origin": {func(r []keyring.Key) []keyring.Key {
			r[1].Rotation = keyring.Rotate("x", 5, private(0), private(1))
			return r
		}, 1, "something else"},
		"another index": {func(r []keyring.Key) []keyring.Key { r[1].From = 4; return r }, 1, "something else"},
		"an earlier index": {func(r []keyring.Key) []keyring.Key {
			r[2].From, r[2].Rotation = 3, keyring.Rotate(origin, 3, private(1), private(2))
			return r
		}, 2, "something else"},
		"another key":        {func(r []keyring.Key) []keyring.Key { r[2].Public = public(9); return r }, 2, "something else"},
		"another first key":  {func(r []keyring.Key) []keyring.Key { r[0].Public = public(9); return r }, 1, "something else"},
		"no statement":       {func(r []keyring.Key) []keyring.Key { r[3].Rotation = nil; return r }, 3, "no statement"},
		"old not signed":     {func(r []keyring.Key) []keyring.Key { r[1].Rotation.OldSignature = foreign.OldSignature; return r }, 1, "before it has not signed"},
		"new not signed":     {func(r []keyring.Key) []keyring.Key { r[1].Rotation.NewSignature = foreign.OldSignature; return r }, 1, "it has not signed"},
		"no signature":       {func(r []keyring.Key) []keyring.Key { r[1].Rotation.OldSignature = nil; return r }, 1, "before it has not signed"},
		"a key left out":     {func(r []keyring.Key) []keyring.Key { return slices.Delete(r, 1, 2) }, 1, "key 1 is missing"},
		"the first left out": {func(r []keyring.Key) []keyring.Key { return r[1:] }, 0, "first key is missing"},
		"the last left out":  {func(r []keyring.Key) []keyring.Key { return r[:3] }, 2, "no key follows"},
		"half a key":         {func(r []keyring.Key) []keyring.Key { r[2].Public = r[2].Public[:31]; return r }, 2, "31 bytes"},
		"a longer life":      {func(r []keyring.Key) []keyring.Key { r[0].EndedAt = "t9"; return r }, 1, "did not end"},
	} {
		flaws := keyring.Flaws(origin, c.change(ring()))
		at := slices.IndexFunc(flaws, func(f string) bool { return f != "" })
		if at != c.at || !strings.Contains(flaws[at], c.why) {
			t.Errorf("%s: %q, want %q at %d", name, flaws, c.why, c.at)
			continue
		}
		for _, f := range flaws[at:] {
			if f == "" {
				t.Errorf("%s: what follows a key that is not proven is: %q", name, flaws)
			}
		}
	}
}
