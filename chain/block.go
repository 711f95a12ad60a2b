package chain

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"attestd/crypto/jcs"
)

const (
	blockBytes = 1 << 20 // a block with large rows ends here, its last row included

	// payloadDepth is one more than a caller's value may be nested: the stored payload wraps it.
	payloadDepth = 128 + 1
)

// block is a run of rows on its way through a pass. All that the rows point to is in the block's own memory.
type block struct {
	rows    []row
	arena   []byte
	to      int64         // the rows are all that there are before this index
	bad     int           // first row that is not what it should be; -1 when there is none
	reason  string        // what is wrong with it
	checked chan struct{} // gets a token from the worker
}

type row struct {
	Record
	frame []byte // all of the record as read, in one piece
}

var errFull = errors.New("block is full")

// fill reads the rows of [from, to), or fewer when they are large.
func (b *block) fill(ctx context.Context, r Reader, chain, from, to int64) error {
	b.rows, b.arena, b.to, b.bad = b.rows[:0], b.arena[:0], to, -1
	err := r.Records(ctx, chain, from, to, func(r *Record) error {
		b.add(r)
		if len(b.arena) < blockBytes {
			return nil
		}
		b.to = r.Index + 1
		return errFull
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// add copies a row. Its frame is, in this order and all lengths and the index as 8 bytes, big-endian: index; lengths of timestamp,
// payload and delegation; hash; signature; timestamp; payload; delegation. So no two rows have one frame, and no two
// sequences of rows give the same bytes.
func (b *block) add(r *Record) {
	start := len(b.arena)
	a := b.arena
	a = binary.BigEndian.AppendUint64(a, uint64(r.Index))
	a = binary.BigEndian.AppendUint64(a, uint64(len(r.Timestamp)))
	a = binary.BigEndian.AppendUint64(a, uint64(len(r.Payload)))
	a = binary.BigEndian.AppendUint64(a, uint64(len(r.Delegation)))
	a = append(a, r.Hash[:]...)
	a = append(a, r.Signature[:]...)
	a = append(a, r.Timestamp...)
	payload := len(a)
	a = append(a, r.Payload...)
	delegation := len(a)
	a = append(a, r.Delegation...)
	b.arena = a // where it grew, the rows before keep the old memory alive until the block is filled again

	kept := row{Record: *r, frame: a[start:]}
	kept.Payload, kept.Delegation = a[payload:delegation], a[delegation:]
	b.rows = append(b.rows, kept)
}

// checker checks rows by themselves; what lies between rows is the fold's.
type checker struct {
	key       ed25519.PublicKey
	canonical []byte
	preimage  []byte
}

// check looks for the first bad row of a block. It stops early when ctx ends: nobody will ask then.
func (c *checker) check(ctx context.Context, b *block) {
	for i := range b.rows {
		if ctx.Err() != nil {
			return
		}
		if reason := c.reasonAgainst(&b.rows[i].Record); reason != "" {
			b.bad, b.reason = i, reason
			return
		}
	}
}

// reasonAgainst returns what is wrong with a record, or "".
func (c *checker) reasonAgainst(r *Record) string {
	if !isTimestamp(r.Timestamp) {
		return "the timestamp is not in the form of a timestamp"
	}
	var err error
	if c.canonical, err = jcs.Append(c.canonical[:0], r.Payload, payloadDepth); err != nil {
		return fmt.Sprintf("the payload has no canonical form: %v", err)
	}
	c.preimage = r.appendPreimage(c.preimage[:0], c.canonical)
	if sha256.Sum256(c.preimage) != r.Hash {
		return "the hash is not that of the record"
	}
	if !ed25519.Verify(c.key, r.Hash[:], r.Signature[:]) {
		return "the signature does not verify under the company's key"
	}
	return ""
}
