// Package keyring is the keys of a company as they follow one another, and the proof that each follows from the one before.
//
// A key signs the records of the company's log from an index on, up to that of the next key. Where one key follows another, both sign,
// with Ed25519 (RFC 8032), this statement, in UTF-8 and each line ended by a line feed:
//
//	attestd/key-rotation/v1
//	<origin of the log>
//	<index of the first record that the new key signs, decimal>
//	<kid of the old key>
//	<kid of the new key>
//
// So whoever trusts one key of a company can check which keys came after it, and from where on, without trusting whoever shows them.
package keyring

import (
	"crypto/ed25519"
	"fmt"

	"attestd/crypto/keys"
)

// Key is a key of a company. Times are those of the API.
type Key struct {
	Generation    int64 // 0 for the first
	Public        ed25519.PublicKey
	From          int64 // index of the first record that it signs
	CreatedAt     string
	EndedAt       string // "" for the one that signs now
	CompromisedAt string // "" unless it was declared compromised
	Rotation      *Rotation
}

// Rotation proves that a key follows the one before; the first key of a company has none.
type Rotation struct {
	Statement    string
	OldSignature []byte
	NewSignature []byte
}

// Rotate signs with both keys that next follows old from a record on.
func Rotate(origin string, from int64, old, next ed25519.PrivateKey) *Rotation {
	text := statement(origin, from, old.Public().(ed25519.PublicKey), next.Public().(ed25519.PublicKey))
	return &Rotation{text, ed25519.Sign(old, []byte(text)), ed25519.Sign(next, []byte(text))}
}

func statement(origin string, from int64, old, next ed25519.PublicKey) string {
	return fmt.Sprintf("attestd/key-rotation/v1\n%s\n%d\n%s\n%s\n", origin, from, keys.Describe(old).KID, keys.Describe(next).KID)
}

// Flaws says of each key of a company, given in their order, why it is not proven to be the company's, or "". A key that follows one that
// is not proven is not proven either. Only the first is taken as it stands.
func Flaws(origin string, ring []Key) []string {
	flaws := make([]string, len(ring))
	for i := range ring {
		switch {
		case len(ring[i].Public) != ed25519.PublicKeySize:
			flaws[i] = fmt.Sprintf("key %d has %d bytes", i, len(ring[i].Public))
		case i == 0:
			flaws[i] = first(&ring[0])
		case flaws[i-1] != "":
			flaws[i] = flaws[i-1]
		default:
			flaws[i] = follows(origin, &ring[i-1], &ring[i])
		}
	}
	if n := len(ring); n > 0 && flaws[n-1] == "" && ring[n-1].EndedAt != "" {
		flaws[n-1] = fmt.Sprintf("key %d has ended, and no key follows it", n-1)
	}
	return flaws
}

func first(k *Key) string {
	if k.Generation != 0 || k.From != 0 || k.Rotation != nil {
		return "the first key is missing"
	}
	return ""
}

// follows returns why next is not proven to follow old, or "".
func follows(origin string, old, next *Key) string {
	n := next.Generation
	switch r := next.Rotation; {
	case n != old.Generation+1:
		return fmt.Sprintf("key %d is missing", old.Generation+1)
	case r == nil:
		return fmt.Sprintf("key %d is not proven: it has no statement of rotation", n)
	case next.From < old.From || r.Statement != statement(origin, next.From, old.Public, next.Public):
		return fmt.Sprintf("key %d is not proven: its statement of rotation is about something else", n)
	case !ed25519.Verify(old.Public, []byte(r.Statement), r.OldSignature):
		return fmt.Sprintf("key %d is not proven: the key before it has not signed the rotation", n)
	case !ed25519.Verify(next.Public, []byte(r.Statement), r.NewSignature):
		return fmt.Sprintf("key %d is not proven: it has not signed the rotation", n)
	case old.EndedAt != next.CreatedAt:
		return fmt.Sprintf("key %d did not end when key %d began", old.Generation, n)
	}
	return ""
}
