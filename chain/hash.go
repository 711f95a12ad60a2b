package chain

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String returns the hash in lower-case hex, the form that is hashed into a node.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// emptyRoot is the root of a tree without leaves.
var emptyRoot = Hash(sha256.Sum256(nil))

// nodeHash returns the parent of two nodes. It takes pointers and allocates nothing, because a tree
// calls it once per record.
func nodeHash(left, right *Hash) Hash {
	var joined [2 * 2 * sha256.Size]byte
	hex.Encode(joined[:len(joined)/2], left[:])
	hex.Encode(joined[len(joined)/2:], right[:])
	return sha256.Sum256(joined[:])
}
