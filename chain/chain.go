// Package chain is the log of a company: its records, the Merkle tree over them, their proofs and
// their verification. It keeps nothing itself: a [Storage] takes what a [Log] adds, a [Reader]
// gives back what stands on disk.
//
// # Record
//
// Records are numbered from 0 without a gap. The hash of a record is the SHA-256 of
//
//	index "|" timestamp "|" payload [ "|" delegation ]
//
// in UTF-8, where index is decimal without leading zeros, timestamp is UTC with milliseconds
// (2006-01-02T15:04:05.000Z) and never earlier than that of the record before, payload is the RFC
// 8785 form of the stored payload, a JSON object, and delegation is the RFC 8785 form of the
// DelegationInfo; without a delegation the last bar is absent too. A timestamp holds no bar and a
// JSON object has no proper prefix that is an object, so a preimage reads only one way.
//
// The signature of a record is Ed25519 (RFC 8032) over the 32 raw bytes of the hash. Keys follow
// one another: each signs from an index on, up to that of the next. Which one has signed a record
// follows from the record's index alone; see [KeySet].
//
// # Tree
//
// A leaf is the hash of a record. A node is the SHA-256 of its two children's lower-case hex forms
// joined, 128 bytes. The shape is that of RFC 6962 §2.1: a tree of n > 1 leaves splits at the
// largest power of two below n, so an odd node moves up unhashed. The root of no records is the
// SHA-256 of nothing; of one record, its hash. A record's preimage always holds a bar and a node's
// never does, so a node cannot pass for a record.
//
// An inclusion proof is the list of siblings on the way from the leaf to the root, each with the
// side it stands on.
//
// # Log tree
//
// No standard tool reads that tree. Beside it stands, over the same records and always of the same
// size, the tree of RFC 6962 that package tlog describes.
//
// # What is kept beside the records
//
// The head (length, root, frontier, last timestamp), written in the transaction of the records that
// it covers. The frontier holds the roots of the perfect subtrees that make up the tree, one for
// each set bit of the length, the largest first: all that an append needs. And the roots of perfect
// subtrees of 2⁸, 2¹⁶, 2²⁴ and 2³² leaves, so that a proof never reads all leaves. Of the log tree
// the same is kept.
package chain

import (
	"context"
	"crypto/ed25519"
	"errors"
	"time"

	"attestd/chain/tlog"
)

// Draft is a record before the log has given it its index, its time and its signature. Nobody may
// change its slices after it was handed to a Log, even where Append has returned early.
type Draft struct {
	Chain      int64  // number of the chain: the company's row
	Payload    []byte // what will be stored: a JSON object
	Canonical  []byte // the RFC 8785 form of Payload
	Delegation []byte // canonical DelegationInfo, or nil
	// makes its append idempotent; nil for one that may be repeated, and where rows ask for it
	Key *Key
}

// Head is the state of a chain after its last record. A Head is a value: nobody changes a Frontier
// in place.
type Head struct {
	Length    int64
	Root      Hash
	Frontier  []Hash // roots of the perfect subtrees that make up the tree, the largest first
	Timestamp string // of the last record; "" when there is none

	Log     tlog.Frontier // of the log tree
	LogRoot tlog.Hash
}

// NoLog is the Size of Head.Log where a file was written before there was a log tree: then nothing
// is said of it.
const NoLog = -1

// EmptyHead is the head of a chain without records.
func EmptyHead() Head { return Head{Root: emptyRoot, LogRoot: tlog.EmptyRoot()} }

// Node is a stored subtree of both trees: the root of the perfect tree over the records
// [Index<<Level, (Index+1)<<Level). Only levels 8, 16, 24 and 32 are stored, so that a proof reads
// at most 256 hashes a level.
type Node struct {
	Level   int // 8, 16, 24, 32
	Index   int64
	Hash    Hash
	LogHash tlog.Hash // in the log tree
}

// Extension is what one batch adds to one chain.
type Extension struct {
	Chain   int64
	From    Head // the head that it extends
	Records []Record
	Keys    []*Key // of the records, in their order; nil where none of them has one
	Nodes   []Node
	Head    Head
}

var (
	// ErrStale: the head on disk is not the one that an extension was built on.
	ErrStale = errors.New("chain: head on disk has moved")

	// ErrAgain: a transaction was lost for no fault of its own, nothing of it was written, and it
	// is to be done again.
	ErrAgain = errors.New("chain: transaction lost")

	// ErrClosed: the log takes nothing more. Nothing was written.
	ErrClosed = errors.New("chain: log is closed")

	// ErrUnknown: it cannot be said whether a write is on disk, now or after the next start. Who
	// must know reads.
	ErrUnknown = errors.New("outcome unknown")

	// ErrMissing: a head, record or stored node that should be on disk is not there.
	ErrMissing = errors.New("chain: missing on disk")
)

// Base is what the next records of a chain are built on.
type Base struct {
	Head Head
	Key  ed25519.PrivateKey // signs the chain's next record
	// others write this chain at the moment, so that the head is not worth remembering
	Shared bool
	// why there is none: it concerns this chain alone while the transaction's Err is nil
	Err error
}

// Storage is where a Log keeps its chains, and whatever else is written in one transaction with
// them. Only the goroutine of Log.Run calls it.
type Storage interface {
	// Begin starts a transaction on what was committed last; the one before it has ended. now is
	// the time that its records will carry. external reports that someone outside this process has
	// written since the last Begin; it counts beside an error too. An error says that nothing was
	// begun.
	Begin(now time.Time) (tx Transaction, external bool, err error)
}

// Transaction is what one batch writes. Commit or Rollback ends it.
type Transaction interface {
	// Bases returns what the next records of chains are built on, as the transaction sees it, in
	// their order. They are asked for before Kept and Record.
	Bases(chains []int64) []Base
	// Rekeyed returns the chains whose signing key the rows of the transaction have changed: all
	// its records come after that.
	Rekeyed() []int64
	// Kept yields what is kept under names that stand for records, which are given by chain, as the
	// transaction sees it. An error is of the chain that it names.
	Kept(names map[int64][]Hash, yield func(chain int64, name Hash, kept Kept)) (chain int64, err error)
	// Record reads a record of a chain. Where it is missing the error MUST wrap ErrMissing.
	Record(chain, index int64) (*Record, error)
	// Extend MUST refuse with ErrStale when the head of the chain is not the extension's From,
	// unless Commit does. The keys of the records become theirs.
	Extend(e *Extension) error
	// Savepoint calls rows. When that returns an error, what it wrote is undone and the error
	// returned.
	Savepoint(rows func() error) error
	// Err says why the transaction can no longer be committed; nil while it can. As long as it is
	// nil, an error of Kept, Record or Extend concerns that chain alone.
	Err() error
	// Commit MUST return nil only after everything is durable, and MUST fail where Err does. An
	// error says that nothing was written, now or after the next start, unless it wraps ErrUnknown.
	// A transaction that has changed no rows may leave out extensions whose From is no longer the
	// head: stale are their chains.
	Commit() (stale []int64, err error)
	Rollback()
}

// Reader reads chains from disk.
type Reader interface {
	// Tip returns, from one snapshot, the head and the number after the greatest record index on
	// disk (0 when none). Where there is no head the error MUST wrap ErrMissing.
	Tip(ctx context.Context, chain int64) (head Head, next int64, err error)
	// KeySet returns the keys of a chain. They cover all records of a head that was read before.
	// Where there are none the error MUST wrap ErrMissing.
	KeySet(ctx context.Context, chain int64) (KeySet, error)
	// Owner says whose records the chain holds.
	Owner(ctx context.Context, chain int64) (Owner, error)
	// Records calls yield for the records of [from, to) that exist, ascending. The record and its
	// slices are only valid during the call. An error of yield ends the read and is returned as it
	// is.
	Records(ctx context.Context, chain, from, to int64, yield func(*Record) error) error
	// Node returns a stored node. Where it is missing the error MUST wrap ErrMissing.
	Node(ctx context.Context, chain int64, level int, index int64) (Node, error)
	// Hashes returns the hashes of level 0 (records) or of stored nodes of level 8, 16, 24, 32 with
	// index in [from, to), ascending, in a slice that the caller may change. Where one is missing
	// the error MUST wrap ErrMissing: it tells a damaged chain from a disk that cannot be read.
	Hashes(ctx context.Context, chain int64, level int, from, to int64) ([]Hash, error)
}
