package chain

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"attestd/chain/tlog"
	"attestd/crypto/jcs"
)

const (
	rangeBytes = 1 << 20 // a range ends with the row that exceeds this size

	// payloadDepth is one more than the nesting limit of a caller's value, which the stored payload
	// wraps.
	payloadDepth = 128 + 1
)

// rowRange is a range of rows during a verification. It owns the memory of its rows.
type rowRange struct {
	rows    []row
	memory  []byte
	to      int64         // no further rows exist before this index
	bad     int           // first wrong row; -1 for none
	reason  string        // what is wrong with it
	leaves  []tlog.Hash   // log tree leaves of the rows that passed the check
	checked chan struct{} // gets a token from the worker
}

type row struct {
	Record
	encoding []byte // the encoded record
}

var errFull = errors.New("range is full")

// fill reads the rows in [from, to), or fewer if they are large.
func (g *rowRange) fill(ctx context.Context, r Reader, chain, from, to int64) error {
	g.rows, g.memory, g.leaves, g.to, g.bad = g.rows[:0], g.memory[:0], g.leaves[:0], to, -1
	err := r.Records(ctx, chain, from, to, func(r *Record) error {
		g.add(r)
		if len(g.memory) < rangeBytes {
			return nil
		}
		g.to = r.Index + 1
		return errFull
	})
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// add copies a row. Its encoding is, in this order and all lengths and the index as 8 bytes,
// big-endian: index; lengths of timestamp, payload and delegation; hash; signature; timestamp;
// payload; delegation. So no two rows have one encoding, and no two sequences of rows give the same
// bytes.
func (g *rowRange) add(r *Record) {
	start := len(g.memory)
	m := g.memory
	m = binary.BigEndian.AppendUint64(m, uint64(r.Index))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Timestamp)))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Payload)))
	m = binary.BigEndian.AppendUint64(m, uint64(len(r.Delegation)))
	m = append(m, r.Hash[:]...)
	m = append(m, r.Signature[:]...)
	m = append(m, r.Timestamp...)
	payload := len(m)
	m = append(m, r.Payload...)
	delegation := len(m)
	m = append(m, r.Delegation...)
	// after a reallocation, earlier rows keep the old memory alive until the next fill
	g.memory = m

	kept := row{Record: *r, encoding: m[start:]}
	kept.Payload, kept.Delegation = m[payload:delegation], m[delegation:]
	g.rows = append(g.rows, kept)
}

// checker checks single rows; fold checks their order.
type checker struct {
	leaves    Leaves
	owner     Owner
	canonical []byte
	preimage  []byte
	// A missing payload is no reason, because the fold says whether it was pruned.
	foldsPruned bool
}

// check finds the first bad row of a range. It stops early when ctx ends, because the result is
// then unused.
func (c *checker) check(ctx context.Context, g *rowRange) {
	for i := range g.rows {
		if ctx.Err() != nil {
			return
		}
		r := &g.rows[i].Record
		if reason := c.reasonAgainst(r, c.leaves.Keys.At(r.Index)); reason != "" {
			g.bad, g.reason = i, reason
			return
		}
		leaf := c.leaves.Of(r)
		g.leaves = append(g.leaves, leaf.Hash())
	}
}

// reasonAgainst returns what is wrong with a record signed by a key, or "".
func (c *checker) reasonAgainst(r *Record, key KeyRange) string {
	if !IsTimestamp(r.Timestamp) {
		return "the timestamp is not in the form of a timestamp"
	}
	if reason := c.reasonAgainstContent(r); reason != "" {
		return reason
	}
	switch {
	case key.Flaw != "":
		return key.Flaw
	case len(key.Key) != ed25519.PublicKeySize:
		return "no key is known that signs this record"
	case !ed25519.Verify(key.Key, r.Hash[:], r.Signature[:]):
		return "the signature does not verify under the company's key"
	}
	return ""
}

// reasonAgainstContent returns why a record does not have the hash that it says, or "".
func (c *checker) reasonAgainstContent(r *Record) string {
	if r.IsPruned() {
		if c.foldsPruned {
			return ""
		}
		return "the payload is missing"
	}
	var err error
	if c.canonical, err = jcs.Append(c.canonical[:0], r.Payload, payloadDepth); err != nil {
		return fmt.Sprintf("the payload has no canonical form: %v", err)
	}
	c.preimage = r.appendPreimage(c.preimage[:0], c.canonical)
	if sha256.Sum256(c.preimage) != r.Hash {
		return "the hash is not that of the record"
	}
	return c.owner.wrong(c.canonical)
}
