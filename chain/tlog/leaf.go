package tlog

import (
	"crypto/ed25519"
	"crypto/sha256"
)

// LeafSize is the length of every leaf, in bytes.
const LeafSize = sha256.Size + ed25519.SignatureSize + sha256.Size

// Leaf is the leaf of a record: see the package comment.
type Leaf [LeafSize]byte

// NewLeaf returns the leaf of a record from the record's hash and signature. keyDigest is the
// [KeyDigest] of the key that signed it.
func NewLeaf(hash [sha256.Size]byte, signature [ed25519.SignatureSize]byte, keyDigest [sha256.Size]byte) (l Leaf) {
	copy(l[:], hash[:])
	copy(l[sha256.Size:], signature[:])
	copy(l[sha256.Size+ed25519.SignatureSize:], keyDigest[:])
	return l
}

// KeyDigest returns the SHA-256 of a raw public key. Callers compute it once for all leaves of a
// key.
func KeyDigest(public ed25519.PublicKey) [sha256.Size]byte { return sha256.Sum256(public) }

// Hash returns the leaf hash of RFC 6962 §2.1. It allocates nothing, because a log calls it for
// each record.
func (l *Leaf) Hash() Hash {
	var prefixed [1 + LeafSize]byte // the first byte, 0x00, marks a leaf
	copy(prefixed[1:], l[:])
	return sha256.Sum256(prefixed[:])
}
