package statement

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
)

// What a Sequence remembers at most.
const (
	maxGaps     = 1000   // ranges of missing places
	maxNamed    = 10_000 // places that are missing and named in a refused
	maxRecent   = 4096   // statements before the present one
	maxRecorded = 100    // places that are named in a refused and recorded
)

// Sequence reads the statements of one session, one key's with one sid, in the order of their
// places, and finds out whether all are there. Its memory does not grow with their number.
//
// A statement is after the one before it, and nothing is after one with end. Where the place before
// it is there, prev is the hash of that statement. The places between two statements, and those
// before the first, are missing. Each entry of refused is then one of these, in this order:
//
//   - Its place is among the last 4,096 before this statement, and they have the same hash: the
//     service has recorded what it had reported to the agent as refused. Another hash is an error.
//   - Its place is known as refused already, and has the same hash. Another hash is an error.
//   - Its place is missing. Where it is the last of its range, and the statement after that range
//     is there, prev of that statement is the entry's hash; another hash is an error. From now on
//     the place is not missing, but refused. Where 10,000 places are refused, or one more range
//     than 1,000 would be missing, it stays missing instead.
//   - Else its place is recorded, and the statement is no longer remembered. But where there are
//     more than 1,000 ranges, the entry may be of one beyond them, and says nothing.
type Sequence struct {
	Records int64
	First   int64 // the lowest seq, and the highest
	Last    int64
	Sealed  bool // Last has end

	// of the statement at 0; nil without
	Continues *Continues
	// places that are missing and that a later statement names as refused
	Refused int
	// places and indexes of records that the service has made although it had reported to the agent
	// that it refused them; the index is -1 where the statement was no longer remembered. The first
	// 100.
	RecordedAfterRefusal [][2]int64
	MoreRecorded         bool // there are more than those

	gaps      []gap
	forgotten int // ranges that are missing beyond gaps
	named     map[int64][sha256.Size]byte
	recent    []written // a ring, once it is full
	oldest    int       // of recent
	seen      map[int64]bool
}

// gap is a range of missing places.
type gap struct {
	first, last int64
	after       [sha256.Size]byte // prev of the statement at last+1, where that is there
	hasAfter    bool
}

// written is a statement that is there.
type written struct {
	seq, index int64
	hash       [sha256.Size]byte
}

// Add adds the next statement, which is in the record of an index. After an error, q MUST NOT be
// used any more.
func (q *Sequence) Add(s *Statement, index int64) error {
	var prev [sha256.Size]byte
	_, _ = hex.Decode(prev[:], []byte(s.Previous)) // Parse has checked its form
	before := q.newest()
	switch {
	case q.Records == 0:
		q.First, q.Continues = s.Seq, s.Continues
		q.skip(0, s.Seq, prev)
	case s.Seq == q.Last:
		return fmt.Errorf("the agent's key signed two statements with the seq %d: this one, and that of record %d", s.Seq, before.index)
	case s.Seq < q.Last:
		return fmt.Errorf("its seq %d stands after %d", s.Seq, q.Last)
	case q.Sealed:
		return fmt.Errorf("its seq %d follows the end of the session, which is %d", s.Seq, q.Last)
	case s.Seq > q.Last+1:
		q.skip(q.Last+1, s.Seq, prev)
	case prev != before.hash:
		return fmt.Errorf("its prev is not the hash of the statement in record %d", before.index)
	}
	for i := range s.Refused {
		if err := q.refused(&s.Refused[i]); err != nil {
			return err
		}
	}
	q.Records++
	q.Last, q.Sealed = s.Seq, s.End
	q.remember(written{s.Seq, index, sha256.Sum256([]byte(s.Compact))})
	return nil
}

// skip notes that the places from one to before another are missing.
func (q *Sequence) skip(from, to int64, after [sha256.Size]byte) {
	switch {
	case from == to:
	case len(q.gaps) == maxGaps:
		q.forgotten++
	default:
		q.gaps = append(q.gaps, gap{from, to - 1, after, true})
	}
}

// refused takes an entry of refused.
func (q *Sequence) refused(r *Refused) error {
	var hash [sha256.Size]byte
	_, _ = hex.Decode(hash[:], []byte(r.Hash))
	if there := q.find(r.Seq); there != nil {
		if there.hash != hash {
			return fmt.Errorf("it says that number %d was refused, and the agent's key signed another statement of that number, in record %d", r.Seq, there.index)
		}
		q.recorded(r.Seq, there.index)
		return nil
	}
	if known, is := q.named[r.Seq]; is {
		if known != hash {
			return fmt.Errorf("it says that number %d was refused, and an earlier statement says so of another statement of that number", r.Seq)
		}
		return nil
	}
	at := sort.Search(len(q.gaps), func(i int) bool { return q.gaps[i].last >= r.Seq })
	switch {
	case at < len(q.gaps) && q.gaps[at].first <= r.Seq:
		return q.fill(at, r.Seq, hash)
	case q.forgotten == 0:
		q.recorded(r.Seq, -1)
	}
	return nil
}

// fill takes a place out of the missing range gaps[at].
func (q *Sequence) fill(at int, seq int64, hash [sha256.Size]byte) error {
	g := q.gaps[at]
	if seq == g.last && g.hasAfter && g.after != hash {
		return errors.New("it says that a statement was refused that is not the one which the statement after it names in prev")
	}
	left, right := gap{first: g.first, last: seq - 1}, gap{seq + 1, g.last, g.after, g.hasAfter}
	var rest []gap
	for _, part := range []gap{left, right} {
		if part.first <= part.last {
			rest = append(rest, part)
		}
	}
	if q.Refused == maxNamed || len(q.gaps)-1+len(rest) > maxGaps {
		return nil
	}
	q.gaps = slices.Replace(q.gaps, at, at+1, rest...)
	if q.named == nil {
		q.named = make(map[int64][sha256.Size]byte)
	}
	q.named[seq] = hash
	q.Refused++
	return nil
}

// recorded notes that a place is recorded which a statement names as refused.
func (q *Sequence) recorded(seq, index int64) {
	switch {
	case q.seen[seq]:
	case len(q.RecordedAfterRefusal) == maxRecorded:
		q.MoreRecorded = true
	default:
		if q.seen == nil {
			q.seen = make(map[int64]bool)
		}
		q.seen[seq] = true
		q.RecordedAfterRefusal = append(q.RecordedAfterRefusal, [2]int64{seq, index})
	}
}

// remember takes a statement among the recent ones.
func (q *Sequence) remember(w written) {
	if len(q.recent) < maxRecent {
		q.recent = append(q.recent, w)
		return
	}
	q.recent[q.oldest] = w
	q.oldest = (q.oldest + 1) % maxRecent
}

// newest is the statement before; the zero one at the beginning.
func (q *Sequence) newest() written {
	if len(q.recent) == 0 {
		return written{}
	}
	return q.recent[(q.oldest+len(q.recent)-1)%len(q.recent)]
}

// find returns a statement that is remembered, or nil.
func (q *Sequence) find(seq int64) *written {
	n := len(q.recent)
	at := func(i int) *written { return &q.recent[(q.oldest+i)%n] }
	i := sort.Search(n, func(i int) bool { return at(i).seq >= seq })
	if i < n && at(i).seq == seq {
		return at(i)
	}
	return nil
}

// Missing returns the first and the last place of each range that is missing, at most the first 100
// of them, and how many there are.
func (q *Sequence) Missing() (ranges [][2]int64, all int) {
	ranges = [][2]int64{}
	for _, g := range q.gaps[:min(len(q.gaps), 100)] {
		ranges = append(ranges, [2]int64{g.first, g.last})
	}
	return ranges, len(q.gaps) + q.forgotten
}
