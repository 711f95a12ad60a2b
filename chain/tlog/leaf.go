package tlog

import (
	"crypto/ed25519"
	"crypto/sha256"
)

// LeafSize is the length of every leaf.
const LeafSize = sha256.Size + ed25519.SignatureSize + sha256.Size

// Leaf is what the tree holds of a record.
type Leaf [LeafSize]byte

// NewLeaf puts together the leaf of a record. keyDigest is the [KeyDigest] of the key that signed
// it.
func NewLeaf(hash [sha256.Size]byte, signature [ed25519.SignatureSize]byte, keyDigest [sha256.Size]byte) (l Leaf) {
	copy(l[:], hash[:])
	copy(l[sha256.Size:], signature[:])
	copy(l[sha256.Size+ed25519.SignatureSize:], keyDigest[:])
	return l
}

// KeyDigest is the SHA-256 of a raw public key, which a caller computes once for all leaves of that
// key.
func KeyDigest(public ed25519.PublicKey) [sha256.Size]byte { return sha256.Sum256(public) }

// Hash is the leaf hash of RFC 6962 §2.1. It works on the stack: a log calls it once a record.
func (l *Leaf) Hash() Hash {
	var prefixed [1 + LeafSize]byte // 0x00 marks a leaf
	copy(prefixed[1:], l[:])
	return sha256.Sum256(prefixed[:])
}
