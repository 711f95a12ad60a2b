// Package tlog is the tree of a chain that standard tools read: the Merkle tree of RFC 6962 §2.1
// over the same records as the tree of package chain and always of the same size, and its C2SP
// forms. It keeps nothing itself: a [Reader] gives back what was stored.
//
// # Leaf
//
// Leaf i is exactly 128 bytes, of record i and of the Ed25519 key that signed it:
//
//	hash (32) || signature (64) || SHA-256 of the raw public key (32)
//
// It is not the record itself: entry bundles have 16-bit lengths, and a payload may have a
// megabyte. The signature keeps payloads that could be guessed from being confirmed by whoever sees
// the tree.
//
// # Tree
//
// The hash of a leaf is SHA-256(0x00 || leaf), that of a node SHA-256(0x01 || left || right), the
// root of no leaves SHA-256 of nothing. Beside the records are kept: the [Frontier], all that an
// append needs, and the roots of perfect subtrees of 2⁸, 2¹⁶, 2²⁴ and 2³² leaves ([Node]), so that
// a proof or a tile never reads all leaves. Hashes of leaves are computed from the records again.
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
// with a line for each signature, over the first three lines. Extension lines, which nobody can
// audit, are refused.
//
// # Cosignature (c2sp.org/tlog-cosignature)
//
// A signature line of a witness stands below the log's own. In place of the bare signature it has
//
//	time (8, big-endian Unix seconds) || signature (64)
//
// The signature is over "cosignature/v1\ntime <time>\n" and the first three lines of the
// checkpoint. Cosignatures of type 0x04 are made and read, and no others.
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
//	extra <base64>\n             only when there is any; nothing authenticates it
//	index <index>\n
//	<base64(hash)>\n             for each hash of the inclusion proof, from the leaf up
//	\n
//	<checkpoint>
//
// # Tiles (c2sp.org/tlog-tiles)
//
// Tile N of level L is the hashes of the 256 perfect subtrees of 2^(8L) leaves from number 256N, 32
// bytes each, at tile/<L>/<N>; a partial one of W < 256 hashes at tile/<L>/<N>.p/<W>. N is written
// in groups of three digits, all but the last behind an x: x001/x234/067. Entry bundles have the
// same numbers and widths at tile/entries/<N>; each leaf stands in them behind its length, a
// big-endian uint16.
//
// # Reading
//
// Every form has one spelling, and parsers take only that: base64 with padding and without stray
// bits or line breaks, decimals without sign or leading zero, lower-case hex. Lengths are capped,
// and so are sizes and indices, at 2⁶⁰: the code of golang.org/x/mod that builds and checks proofs
// overflows near 2⁶² and then never returns.
package tlog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is a SHA-256 digest. Its String is the standard base64, the form in which C2SP writes it.
type Hash = tlog.Hash

// Tree is a size and the root of the tree of that many leaves.
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
	// Hashes returns the leaf hashes (level 0) or the stored nodes of level 8, 16, 24 or 32 with
	// index in [from, to), ascending. Where one is missing it returns an error. Callers do not
	// change the slice.
	Hashes(ctx context.Context, level int, from, to int64) ([]Hash, error)
}

var (
	// ErrMalformed: bytes from outside are not in the form that they should have.
	ErrMalformed = errors.New("tlog: malformed")

	// ErrSignature: no trusted key has signed, or the signature of a trusted key does not verify.
	ErrSignature = errors.New("tlog: no valid signature of a trusted key")

	// ErrProof: a proof does not lead to the root. Hashes on disk that do not are no ErrProof.
	ErrProof = errors.New("tlog: proof does not hold")
)

// MaxSize bounds the sizes of trees that others may claim: every number up to it is exact in JSON.
const MaxSize = 1<<53 - 1

const maxSize = 1 << 60 // of trees in what is parsed and checked

// EmptyRoot is the root of a tree without leaves.
func EmptyRoot() Hash { return sha256.Sum256(nil) }

// ParseDecimal reads a number of [0, 2⁶⁰] in its only spelling.
func ParseDecimal(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n >= 0 && n <= maxSize && strconv.FormatInt(n, 10) == s
}

var strictBase64 = base64.StdEncoding.Strict()

// parseBase64 reads standard base64 in its only spelling. Even a strict decoder skips line breaks.
func parseBase64(s string) ([]byte, bool) {
	data, err := strictBase64.DecodeString(s)
	return data, err == nil && !strings.ContainsAny(s, "\r\n")
}

// ParseHash reads a hash in base64, in its only spelling.
func ParseHash(s string) (Hash, bool) {
	data, ok := parseBase64(s)
	if !ok || len(data) != tlog.HashSize {
		return Hash{}, false
	}
	return Hash(data), true
}
