// Package tlog is the transparency log of a chain, which standard tools read: the Merkle tree of
// RFC 6962 §2.1 and its C2SP forms. The tree covers the same records as the tree of package chain
// and always has the same size. The package stores nothing: a [Reader] returns what was stored.
//
// # Leaf
//
// Leaf i is exactly 128 bytes, of record i and of the Ed25519 key that signed it:
//
//	hash (32) || signature (64) || SHA-256 of the raw public key (32)
//
// The leaf is not the record itself: entry bundles have 16-bit lengths, and a payload may have a
// megabyte. The signature is in the leaf so that a reader of the tree cannot confirm a guessed
// payload.
//
// # Tree
//
// The hash of a leaf is SHA-256(0x00 || leaf), that of a node SHA-256(0x01 || left || right), the
// root of no leaves SHA-256 of nothing. The storage has, with the records, the [Frontier], which is
// all that an append needs, and the roots of perfect subtrees of 2⁸, 2¹⁶, 2²⁴ and 2³² leaves
// ([Node]). So a proof or a tile never reads all leaves. Leaf hashes are not stored: a Reader
// computes them from the records.
//
// # Key (c2sp.org/signed-note)
//
// The key ID is the first 4 bytes of SHA-256(name || 0x0A || type || public key). A verifier key,
// "vkey", is
//
//	<name>+<key ID, 8 lower-case hex digits>+<base64(type || public key)>
//
// A name has 1 to 255 bytes of UTF-8 without space, "+" and control characters. A log's name is its
// origin.
//
// # Checkpoint (c2sp.org/tlog-checkpoint)
//
//	<origin>\n
//	<size>\n
//	<base64(root)>\n
//	\n
//	— <name> <base64(key ID || signature)>\n
//
// with one line for each signature. Each signature is over the first three lines. Extension lines
// are refused, because no one can audit them.
//
// # Cosignature (c2sp.org/tlog-cosignature)
//
// The signature line of a witness follows the log's own. Instead of the bare signature it has
//
//	time (8, big-endian Unix seconds) || signature (64)
//
// The signature is over "cosignature/v1\ntime <time>\n" and the first three lines of the
// checkpoint. Only cosignatures of type 0x04 are supported.
//
// # Policy (c2sp.org/tlog-policy)
//
//	log <vkey> [<url>]
//	witness <name> <vkey> [<url>]
//	group <name> all|any|<k> <member>…
//	quorum <name>|none
//
// A policy says whose checkpoints are trusted: those signed by one of the logs, and cosigned by a
// quorum of the witnesses.
//
// # Proof (c2sp.org/tlog-proof)
//
//	c2sp.org/tlog-proof@v1\n
//	extra <base64>\n             optional; nothing authenticates it
//	index <index>\n
//	<base64(hash)>\n             for each hash of the inclusion proof, from the leaf up
//	\n
//	<checkpoint>
//
// # Tiles (c2sp.org/tlog-tiles)
//
// Tile N of level L is the hashes of the 256 perfect subtrees of 2^(8L) leaves from number 256N, 32
// bytes each, at tile/<L>/<N>. A partial tile of W < 256 hashes is at tile/<L>/<N>.p/<W>. N is
// written in groups of three digits, all but the last with the prefix x: x001/x234/067. Entry
// bundles have the same numbers and widths at tile/entries/<N>; before each leaf they have its
// length, a big-endian uint16.
//
// # Parsing
//
// Every form has one spelling, and parsers accept only that: base64 with padding and without stray
// bits or line breaks, decimals without sign or leading zero, lower-case hex. Lengths are bounded.
// Sizes and indices are at most 2⁶⁰, because golang.org/x/mod, which builds and checks proofs,
// overflows near 2⁶² and then never returns.
package tlog

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is a SHA-256 digest. Its String is the standard base64, the form in which C2SP writes it.
type Hash = tlog.Hash

// Tree is the size of a tree, in leaves, and its root.
type Tree struct {
	Size int64
	Root Hash
}

// Node is a stored subtree hash: the root of the perfect tree over the leaves [Index<<Level,
// (Index+1)<<Level).
type Node struct {
	Level int // 8, 16, 24, 32
	Index int64
	Hash  Hash
}

// Reader reads one tree.
type Reader interface {
	// Hashes returns the leaf hashes (level 0) or the stored nodes (level 8, 16, 24 or 32) with
	// index in [from, to), in ascending order. It MUST return an error where one is missing.
	// Callers MUST NOT change the slice.
	Hashes(ctx context.Context, level int, from, to int64) ([]Hash, error)
}

var (
	// ErrMalformed says that input does not have its one form.
	ErrMalformed = errors.New("malformed")

	// ErrSignature says that no trusted key has signed, or that the signature of a trusted key
	// does not verify.
	ErrSignature = errors.New("no valid signature by a trusted key")

	// ErrProof says that a proof from outside does not lead to the root. Stored hashes that do not
	// lead there are another error.
	ErrProof = errors.New("proof does not verify")
)

// MaxSize is the largest tree size that others may claim. JSON carries every number up to it
// exactly.
const MaxSize = 1<<53 - 1

const maxSize = 1 << 60 // leaves of a tree in parsed input

// EmptyRoot returns the root of a tree without leaves.
func EmptyRoot() Hash { return sha256.Sum256(nil) }

// ParseDecimal parses a number from 0 to 2⁶⁰, without sign or leading zero.
func ParseDecimal(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= maxSize && strconv.FormatInt(n, 10) == s
}

var strictBase64 = base64.StdEncoding.Strict()

// parseBase64 parses standard base64. Even Go's strict decoder skips line breaks.
func parseBase64(s string) ([]byte, bool) {
	data, err := strictBase64.DecodeString(s)
	return data, err == nil && !strings.ContainsAny(s, "\r\n")
}

// ParseHash parses the standard base64 of a hash.
func ParseHash(s string) (Hash, bool) {
	data, ok := parseBase64(s)
	if !ok || len(data) != tlog.HashSize {
		return Hash{}, false
	}
	return Hash(data), true
}

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

// Frontier is all that an append to a tree needs: its size, in leaves, and the roots of the perfect
// subtrees that make it up. There is one root for each set bit of Size, the largest subtree first.
// A Frontier is a value: callers MUST NOT change Roots in place. The zero Frontier is the tree
// without leaves.
type Frontier struct {
	Size  int64
	Roots []Hash
}

// Check returns an error unless f has as many roots as its size demands, and they give root.
// Callers MUST check a frontier from disk before they use its other methods: to append to one that
// was changed would hide the change.
func (f Frontier) Check(root Hash) error {
	if f.Size < 0 || len(f.Roots) != bits.OnesCount64(uint64(f.Size)) {
		return fmt.Errorf("tlog: the frontier of a tree of %d has %d roots", f.Size, len(f.Roots))
	}
	if f.Root() != root {
		return fmt.Errorf("tlog: the frontier does not give the root of the tree of %d", f.Size)
	}
	return nil
}

// Root returns the root of the tree. It computes one node hash for each set bit of the size but the
// first.
func (f Frontier) Root() Hash {
	last := len(f.Roots) - 1
	if last < 0 {
		return EmptyRoot()
	}
	root := f.Roots[last]
	for i := last - 1; i >= 0; i-- {
		root = tlog.NodeHash(f.Roots[i], root)
	}
	return root
}

// Tree returns the size and the root.
func (f Frontier) Tree() Tree { return Tree{f.Size, f.Root()} }

// Append returns the frontier of the tree with more leaves, which are given as leaf hashes. It also
// returns the nodes to store that they complete, in the order of completion, lower levels first. It
// copies the frontier once, and computes one node hash for each leaf on average.
func (f Frontier) Append(leaves ...Hash) (Frontier, []Node) {
	roots := make([]Hash, len(f.Roots), len(f.Roots)+bits.Len(uint(len(leaves)))+1)
	copy(roots, f.Roots)
	var completed []Node
	size := f.Size
	for _, subtree := range leaves {
		for level := 0; ; level++ {
			if Stored(level) {
				completed = append(completed, Node{level, size >> level, subtree})
			}
			if size>>level&1 == 0 {
				break
			}
			last := len(roots) - 1
			subtree = tlog.NodeHash(roots[last], subtree)
			roots = roots[:last]
		}
		roots = append(roots, subtree)
		size++
	}
	return Frontier{size, roots}, completed
}
