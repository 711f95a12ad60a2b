package service

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/maphash"
	"sync"

	"attestd/crypto/statement"
	"attestd/internal/bounded"
	"attestd/store"
)

// The statements of a session are checked when it is listed, as every checker checks them: one
// whose file would fail is never called sealed. To read them costs more than to read their places,
// and they never change. So what was read is remembered, and a session that has grown is read from
// there on. Its places are read each time, because a statement may come in between.

// sequences remembers how far sessions of statements have been read. The zero value is ready.
type sequences struct {
	mu    sync.Mutex
	known *bounded.Map[sequenceOf, *sequence] // nil at first
}

type sequenceOf struct {
	company int64
	session store.Session // without Number
}

// sequence is a session as far as it has been read. The function that took it out of sequences owns
// it.
type sequence struct {
	statement.Sequence
	read   digest // of the places
	broken bool   // a statement contradicts the ones before; nothing after it was read
	pruned bool   // a payload was pruned while it was read
}

// digest is of places, in their order. It is of this process alone, so that no one can choose other
// places of the same one.
type digest struct {
	hash  maphash.Hash
	count int64
}

var digestSeed = maphash.MakeSeed()

func newDigest() (d digest) {
	d.hash.SetSeed(digestSeed)
	return d
}

func (d *digest) add(p place) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(p.number))
	binary.BigEndian.PutUint64(b[8:], uint64(p.index))
	_, _ = d.hash.Write(b[:])
	d.count++
}

const (
	maxSequences = 16 << 20 // bytes, about, of all that is remembered
	// costOfStatement is for how many places of a page it counts to read a statement.
	costOfStatement = 8
)

// size is about how many bytes the sequence occupies.
func (q *sequence) size() int { return 1024 + 48*int(min(q.Records, 4096)) + 64*q.Refused }

func newSequence() *sequence { return &sequence{read: newDigest()} }

// remove removes and returns a sequence, or returns a new one.
func (s *sequences) remove(of sequenceOf) *sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, is := s.known.Get(of)
	if !is {
		return newSequence()
	}
	s.known.Delete(of)
	return q
}

// put remembers a sequence. Another request may have put what it has read meanwhile.
func (s *sequences) put(of sequenceOf, q *sequence) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = bounded.NewWeighted(maxSequences, func(_ sequenceOf, q *sequence) int { return q.size() })
	}
	s.known.Put(of, q)
}

// readOn reads the statements of a session that q has not read yet, and returns how many.
func (q *sequence) readOn(ctx context.Context, v *store.View, by store.Caller, of store.Session) (count int64, err error) {
	if q.broken {
		return 0, nil
	}
	series, from := of.Series(), int64(0)
	if q.Records > 0 {
		from = q.Last + 1
	}
	err = v.PlaceTails(ctx, by, series.At(from), series.At(statement.MaxSeq), tailSize, func(p store.Place, end []byte) (bool, error) {
		number, ok := series.Number(p.Name)
		if !ok {
			return true, nil // its first half alone is that of the session
		}
		count++
		compact, isPruned, err := statementAt(ctx, v, by, p.Index, end)
		if q.pruned = isPruned; err != nil || isPruned {
			return false, err
		}
		q.read.add(place{number, p.Index})
		q.broken = !q.add(place{number, p.Index}, of, compact)
		return !q.broken, nil
	})
	return count, err
}

// add takes the statement of a place. It reports false for one that contradicts those before, or is
// of another place than its record is found by.
func (q *sequence) add(p place, of store.Session, compact string) bool {
	stmt, err := statement.Parse(compact)
	return err == nil && stmt.KeyID == of.Key && stmt.Session == of.ID && stmt.Seq == p.number && q.Add(stmt, p.index) == nil
}

// tailSize is how many characters are read of the end of a payload. Nearly every statement is
// within.
const tailSize = 2 << 10

// statementAt is the statement with which a payload ends, of which the whole is read where its end
// is not enough; "" where it does not end with one.
func statementAt(ctx context.Context, v *store.View, by store.Caller, index int64, end []byte) (compact string, isPruned bool, err error) {
	if len(end) == 0 {
		return "", true, nil
	}
	if compact, ok := lastStatement(end); ok {
		return compact, false, nil
	}
	r, err := recordAt(ctx, v, by.Company.Actions, index)
	if err != nil {
		return "", false, err
	}
	compact, _ = lastStatement(r.Payload)
	return compact, r.IsPruned(), nil
}

// lastStatement is the member statement with which a stored payload ends; see recordPayload. A
// compact JWS has no quotes.
func lastStatement(payload []byte) (compact string, ok bool) {
	const before, after = `,"statement":"`, `"}`
	payload, ok = bytes.CutSuffix(payload, []byte(after))
	at := bytes.LastIndex(payload, []byte(before))
	if !ok || at < 0 {
		return "", false
	}
	return string(payload[at+len(before):]), true
}

// place is a record of a session.
type place struct{ number, index int64 } // seq or, without statements, index
