package chain

import (
	"crypto/sha256"
	"encoding/hex"
)

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String is the hash in lower-case hex, the form in which it enters a node of the tree.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// emptyRoot is the root of a tree without leaves.
var emptyRoot = Hash(sha256.Sum256(nil))

// nodeHash joins two subtrees. It takes pointers and works on the stack: a tree calls it once a
// record.
func nodeHash(left, right *Hash) Hash {
	var joined [2 * 2 * sha256.Size]byte
	hex.Encode(joined[:len(joined)/2], left[:])
	hex.Encode(joined[len(joined)/2:], right[:])
	return sha256.Sum256(joined[:])
}
