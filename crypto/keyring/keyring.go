// Package keyring has the sequence of a company's keys, and the proofs that each follows the one
// before it.
//
// A key signs the records of each of the company's logs from an index on, up to that of the next
// key. At a rotation both keys sign, for each log, with Ed25519 (RFC 8032), this statement in
// UTF-8, each line ended by a line feed:
//
//	attestd/key-rotation/v2
//	<origin of the log>
//	<index of the first record that the new key signs, decimal>
//	<fingerprint of the old key>
//	<fingerprint of the new key>
//
// A fingerprint is "SHA256:" and the base64url, without padding, of the SHA-256 of the key's SPKI
// DER. Version 1 of the statement began with attestd/key-rotation/v1 and named both keys by their
// kids, the first 64 bits of that digest in lower-case hex. Such statements remain valid, with the
// strength of 64 bits.
//
// With one trusted key of a company, a verifier can therefore check all later keys and their first
// indexes, from any source.
package keyring

import (
	"crypto/ed25519"
	"fmt"
	"slices"

	"attestd/crypto/keys"
)

// Key is a key of a company. Times are those of the API.
type Key struct {
	Generation    int64 // 0 for the first
	Public        ed25519.PublicKey
	From          int64 // index of the first record that it signs in a log
	CreatedAt     string
	EndedAt       string // "" for the one that signs now
	CompromisedAt string // "" unless it was declared compromised
	Rotation      *Rotation
}

// Rotation proves that a key follows the one before; the first key of a log has none.
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
	return fmt.Sprintf("attestd/key-rotation/v2\n%s\n%d\n%s\n%s\n", origin, from, keys.Describe(old).Fingerprint, keys.Describe(next).Fingerprint)
}

// isStatement reports whether text is the statement of a rotation, in the form of today or in the
// first one.
func isStatement(text, origin string, from int64, old, next ed25519.PublicKey) bool {
	return text == statement(origin, from, old, next) ||
		text == fmt.Sprintf("attestd/key-rotation/v1\n%s\n%d\n%s\n%s\n", origin, from, keys.Describe(old).KID, keys.Describe(next).KID)
}

// Flaws returns for each key of a log, in order from the first, why it is not proven to be the
// company's, or "". A key after an unproven one is unproven too. The first key is trusted; the
// caller MUST authenticate it.
func Flaws(origin string, ring []Key) []string {
	return flaws(origin, ring, func(i int) string {
		if i == 0 && ring[0].Generation != 0 {
			return missing
		}
		return ""
	})
}

// FlawsWithProven is Flaws for a log created after its company may have had several keys. Then even
// the first key of ring is not trusted. all has every key of the company in another log, and proven
// is the result of Flaws for all. That log MUST prove that each key is the company's, and this log
// proves the first record that it signs here.
func FlawsWithProven(origin string, ring, all []Key, proven []string) []string {
	return flaws(origin, ring, func(i int) string {
		k := &ring[i]
		n := slices.IndexFunc(all, func(other Key) bool { return other.Generation == k.Generation && other.Public.Equal(k.Public) })
		if n < 0 {
			return fmt.Sprintf("key %d is not among the company's", k.Generation)
		}
		return proven[n]
	})
}

const missing = "the first key is missing"

// flaws is common to both kinds of log; otherFlaw returns other reasons against a key.
func flaws(origin string, ring []Key, otherFlaw func(i int) string) []string {
	flaws := make([]string, len(ring))
	for i := range ring {
		switch {
		case len(ring[i].Public) != ed25519.PublicKeySize:
			flaws[i] = fmt.Sprintf("key %d has %d bytes", ring[i].Generation, len(ring[i].Public))
		case i > 0 && flaws[i-1] != "":
			flaws[i] = flaws[i-1]
		case i > 0:
			flaws[i] = follows(origin, &ring[i-1], &ring[i])
		case ring[0].From != 0 || ring[0].Rotation != nil:
			flaws[0] = missing
		}
		if flaws[i] == "" {
			flaws[i] = otherFlaw(i)
		}
	}
	if n := len(ring); n > 0 && flaws[n-1] == "" && ring[n-1].EndedAt != "" {
		flaws[n-1] = fmt.Sprintf("key %d has ended, and no key follows it", ring[n-1].Generation)
	}
	return flaws
}

// follows returns why next is not proven to follow old, or "".
func follows(origin string, old, next *Key) string {
	n := next.Generation
	switch r := next.Rotation; {
	case n != old.Generation+1:
		return fmt.Sprintf("key %d is missing", old.Generation+1)
	case r == nil:
		return fmt.Sprintf("key %d is not proven: it has no statement of rotation", n)
	case next.From < old.From || !isStatement(r.Statement, origin, next.From, old.Public, next.Public):
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
