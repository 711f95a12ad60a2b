// Package chain is the log of a company: its records, the Merkle tree over them, their proofs and
// their verification. It has no storage of its own: a [Log] writes to a [Storage], and a [Reader]
// reads from disk.
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
// The signature of a record is Ed25519 (RFC 8032) over the 32 raw bytes of the hash. Each key signs
// a range of indexes, up to the first index of the next key. So the index of a record determines
// its key; see [KeySet].
//
// # Tree
//
// A leaf is the hash of a record. A node is the SHA-256 of its two children's lower-case hex forms
// joined, 128 bytes. The shape is that of RFC 6962 §2.1: a tree of n > 1 leaves splits at the
// largest power of two below n, so an odd node moves up unhashed. The root of no records is the
// SHA-256 of nothing; of one record, its hash. A record's preimage always contains a bar and a
// node's never does, so a node cannot be mistaken for a record.
//
// An inclusion proof is the list of siblings on the path from the leaf to the root, each with its
// side.
//
// # Log tree
//
// No standard tool reads that tree. A second tree over the same records, always of the same size,
// is the tree of RFC 6962 that package tlog specifies.
//
// # Stored nodes
//
// The head (length, root, frontier, last timestamp) is written in the transaction of the records
// that it covers. The frontier has the roots of the perfect subtrees that make up the tree, one for
// each set bit of the length, largest first. An append needs nothing else. The roots of perfect
// subtrees of 2⁸, 2¹⁶, 2²⁴ and 2³² leaves are stored too, so that a proof never reads all leaves.
// The same is stored of the log tree.
package chain

import (
	"context"
	"crypto/ed25519"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain/tlog"
)

// Draft is a record before the log sets its index, time and signature. A caller MUST NOT change its
// slices after passing it to a Log, even if Append has returned early.
type Draft struct {
	Chain      int64  // number of the chain: the company's row
	Payload    []byte // the stored bytes: a JSON object
	Canonical  []byte // the RFC 8785 form of Payload
	Delegation []byte // canonical DelegationInfo, or nil
	// Keys make the append idempotent. A draft of Write whose key has a record already fails with
	// ErrRecorded, for its rows are about a new one.
	Keys []Key
	// Replays says which delegation a record has that was made for the same request; see Matches.
	Replays Delegated
	// Series names what the record belongs to together with others. The record gets a further key,
	// Series.At of its index. The zero Series is none.
	Series Series
	// Decided says that the payload holds a decision by the policies of this Revision. A chain
	// whose Base has another one refuses the draft with ErrRevision.
	Decided  bool
	Revision int64
	// MayBeDecided says that an earlier record of the request may hold a decision.
	MayBeDecided bool
	// Exempt lets the record be written whatever the Limit of its chain and the Room of the storage
	// say: it ends a right, or an operator demands it. It counts all the same.
	Exempt bool
	// Sealed is called for a draft of Write, before the commit, with the record that it becomes; it
	// may write rows. An error fails the Write. It MUST NOT keep the record. Nil for none.
	Sealed func(*Record) error
	// Complete returns the payload of a draft of Write, which is Canonical too, after Sealed of all
	// others was called: so a record can name one of the same transaction. Until then Payload is
	// one that is at least as long. Nil where Payload is the payload.
	Complete func() ([]byte, error)
}

// Head is the state of a chain after its last record. A Head is a value: its Frontier MUST NOT be
// changed in place.
type Head struct {
	Length    int64
	Root      Hash
	Frontier  []Hash // roots of the perfect subtrees that make up the tree, the largest first
	Timestamp string // of the last record; "" when there is none

	Log     tlog.Frontier // of the log tree
	LogRoot tlog.Hash

	Bytes int64 // of the payloads and delegations of all records
}

// NoLog is the Size of Head.Log in a database from before the log tree existed.
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

// Extension is the part of a batch that one chain is extended by.
type Extension struct {
	Chain   int64
	From    Head  // the head that it extends
	Epoch   int64 // of From, as its Base had it
	Records []Record
	Keys    []RecordKey // of the records, in their order
	Nodes   []Node
	Head    Head
}

var (
	// ErrStale reports that the head on disk is not the one that an extension was built on.
	ErrStale = errors.New("chain: head on disk has moved")

	// ErrTransactionLost reports that a transaction was lost through no fault of its own. Nothing
	// was written, and the caller MUST retry it.
	ErrTransactionLost = errors.New("chain: transaction lost")

	// ErrRecorded reports that a draft of a Write has a key that has a record. Nothing was written.
	ErrRecorded = errors.New("chain: the draft of a change is recorded already")

	// ErrClosed reports that the log is closed. Nothing was written.
	ErrClosed = errors.New("chain: log is closed, because its process stops or has not begun to write: nothing was written; try again when it runs")

	// ErrUnknown reports that a write may or may not be on disk, now or after the next start. Only
	// reading the chain tells.
	ErrUnknown = errors.New("outcome unknown")

	// ErrMissing reports that a head, record or stored node is missing on disk.
	ErrMissing = errors.New("chain: missing on disk")
)

// Base is the head that the next records of a chain extend, with the key that signs them.
type Base struct {
	Head Head
	// Epoch grows on disk when the key changes, where the storage counts that. It is handed back in
	// the Extension, so that one that was built with a former key is stale.
	Epoch int64
	Key   ed25519.PrivateKey // signs the chain's next record
	// Shared reports that other processes write this chain now, so that its head must not be
	// cached.
	Shared bool
	// Limit bounds the chain. A change of it changes Epoch, or the chain is in Rekeyed.
	Limit Limit
	// Revision says how often what decides about the chain's drafts has changed. A change of it
	// changes Epoch, or the chain is in Rekeyed.
	Revision int64
	// Err is the error of reading the base. It applies to this chain only, while the transaction's
	// Err is nil.
	Err error
}

// Storage stores the chains of a Log, and the rows written in the same transactions. Only the
// goroutine of Log.Run calls it.
type Storage interface {
	// Begin starts a transaction on the last committed state; the transaction before it has ended.
	// now is the time of its records. external reports that another process has written since the
	// last Begin; it is valid even with an error. After an error there is no transaction.
	Begin(now time.Time) (tx Transaction, external bool, err error)
}

// Transaction writes one batch. Commit or Rollback ends it.
type Transaction interface {
	// Bases returns the bases of chains, in the order of the argument, as the transaction sees
	// them. The log calls it before KeyEntries and Record.
	Bases(chains []int64) []Base
	// Rekeyed returns the chains whose signing key, Limit or Revision the transaction's row
	// functions have changed. All are in force for all records of the transaction. all says that
	// the Limit of every chain has changed since the transaction before.
	Rekeyed() (chains []int64, all bool)
	// Room returns how much may be added to all chains together.
	Room() Room
	// KeyEntries yields the entries of idempotency keys, given by chain and name, as the
	// transaction sees them, those that have expired too. An error applies to the returned chain.
	KeyEntries(names map[int64][]Hash, yield func(chain int64, name Hash, entry KeyEntry)) (chain int64, err error)
	// Free returns nil if no record of a chain has the names of some Unique keys, of which there is
	// no entry. An entry may have been taken away.
	Free(chain int64, keys []Key) error
	// Record reads a record of a chain. If it is missing, the error MUST wrap ErrMissing.
	Record(chain, index int64) (*Record, error)
	// Extend MUST refuse with ErrStale when the head of the chain is not the extension's From,
	// unless Commit does. The keys of the records become theirs.
	Extend(e *Extension) error
	// Savepoint calls rows. If that returns an error, Savepoint MUST roll back its writes and
	// return the error.
	Savepoint(rows func() error) error
	// Err returns why the transaction can no longer be committed, or nil. While it is nil, an error
	// of KeyEntries, Record or Extend applies to that chain only.
	Err() error
	// Commit MUST return nil only after everything is durable, and MUST fail if Err is not nil.
	// After an error nothing is written, now or after the next start, unless the error wraps
	// ErrUnknown. A transaction that has changed no rows may omit extensions whose From is no
	// longer the head; stale has their chains.
	Commit() (stale []int64, err error)
	Rollback()
}

// Reader reads chains from disk.
type Reader interface {
	// Tip returns, from one snapshot, the head, and one more than the greatest record index on disk
	// (0 without records). If there is no head, the error MUST wrap ErrMissing.
	Tip(ctx context.Context, chain int64) (head Head, next int64, err error)
	// KeySet returns the keys of a chain. They MUST cover all records of a head that was read
	// before. If there are none, the error MUST wrap ErrMissing.
	KeySet(ctx context.Context, chain int64) (KeySet, error)
	// Owner returns the owner of a chain's records.
	Owner(ctx context.Context, chain int64) (Owner, error)
	// Pruned returns what was pruned of a chain. It MUST check the company's signature below that,
	// and return an error that wraps ErrUnproven where that does not verify. A payload may go from
	// disk only after Pruned says so, and Records never decreases.
	Pruned(ctx context.Context, chain int64) (Pruned, error)
	// Records calls yield for the existing records of [from, to), ascending, with an empty
	// payload where that is not on disk. The record and its slices are valid only during the call.
	// An error of yield ends the read and is returned unwrapped.
	Records(ctx context.Context, chain, from, to int64, yield func(*Record) error) error
	// Node returns a stored node. If it is missing, the error MUST wrap ErrMissing.
	Node(ctx context.Context, chain int64, level int, index int64) (Node, error)
	// Hashes returns the hashes of level 0 (records) or of stored nodes of level 8, 16, 24, 32 with
	// index in [from, to), ascending, in a slice that the caller may change. If one is missing, the
	// error MUST wrap ErrMissing, which distinguishes a damaged chain from a read error.
	Hashes(ctx context.Context, chain int64, level int, from, to int64) ([]Hash, error)
}

// RecordKey is a key of a record.
type RecordKey struct {
	Key
	Index int64 // of the record
}

// KeyEntry is the stored entry of an idempotency key.
type KeyEntry struct {
	Request Hash
	Index   int64 // of the record
	Expired bool  // the key counts no more; one that is Unique never expires
}

// Delegated names a delegation. The zero value is of none, or of the one in Draft.Delegation.
type Delegated struct {
	TokenID string // of its token, be that one refused by now
	// Where it is set, another token of the same subject makes the same request.
	Subject string
}

// Key makes an append idempotent. Of all drafts of a chain that have a key of the same Name, only
// the first becomes a record. The others return that record, as long as the storage has the key.
type Key struct {
	Name    Hash // hash of what the caller calls the key
	Request Hash // hash of the request; another request with the same name is refused
	// Unique is for a name that no other request may ever have. The storage MUST keep it for good.
	Unique bool
	// Since is the time before which no record can have been made that has the name of a Unique
	// key; zero if it is not known.
	Since time.Time
}

// errContradiction means that stored data is inconsistent.
var errContradiction = errors.New("stored data is inconsistent")

// parallel calls work for each i in [0, n) and returns when all calls have returned. It uses one
// goroutine for few calls.
func parallel(n int, work func(i int)) {
	var next atomic.Int64
	run := func() {
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			work(int(i))
		}
	}
	var helpers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/2) - 1 {
		helpers.Go(run)
	}
	run()
	helpers.Wait()
}

// Limit bounds a chain. The zero value bounds nothing.
type Limit struct {
	Records, Bytes int64 // as many as the chain may have; 0 for no bound
	Closed         bool  // nothing may be appended
}

// Room is how much may be added to all chains together. The zero value bounds nothing.
type Room struct {
	Bounded        bool
	Records, Bytes int64 // what is left; of what is not bounded, more than any batch has
}
