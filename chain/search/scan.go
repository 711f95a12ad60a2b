package search

import (
	"context"
	"errors"

	"attestd/chain"
)

const (
	// maximum records in one read, because a long read transaction blocks WAL checkpoints
	stepRecords = 1 << 10
	stepBytes   = 1 << 18 // a read ends after so many bytes
	nearRecords = 4       // up to so many non-matching records between matches are read too

	windowSummaries  = 1 << 9 // maximum summaries in one read
	windowCandidates = 16     // a read ends after so many candidates, whose verdicts are in memory
)

// Scan scans the records [From, To) of a chain from one end. The range shrinks as records are
// decided.
type Scan struct {
	From, To int64 // undecided records
	Read     int64 // bytes of payloads and delegations read so far
	// decided records that may match, and were passed over because their payload was pruned
	Pruned int64

	reader   Reader
	chainID  int64
	filter   Filter
	backward bool
	counting bool // what summaries say of records whose payload was pruned counts
	// candidates in [From, To) up to seen, in the order of the scan
	found []candidate
	seen  int64 // end of the summaries read so far: up to here only found can match
	terms Terms
}

// candidate is a range in which some records may match.
type candidate struct {
	from, to int64
	verdicts *Verdicts // of their range of Width records; nil if all records must be read
}

// NewScan starts a scan. All records in the range MUST exist.
func NewScan(r Reader, chainID int64, f Filter, from, to int64, backward bool) *Scan {
	s := &Scan{From: from, To: max(from, to), reader: r, chainID: chainID, filter: f, backward: backward}
	s.seen = s.next()
	return s
}

// Done reports whether all records are decided.
func (s *Scan) Done() bool { return s.From >= s.To }

// next returns the border between decided and undecided records.
func (s *Scan) next() int64 {
	if s.backward {
		return s.To
	}
	return s.From
}

// advance moves the border to to.
func (s *Scan) advance(to int64) {
	if s.backward {
		s.To = max(to, s.From)
	} else {
		s.From = min(to, s.To)
	}
}

var errStop = errors.New("search: read stopped")

// Step decides some records in one or two short reads of bounded size, and calls yield for the
// matching ones. If yield returns false, the record stays undecided and the step ends. A damaged
// record causes a *DamageError and stays undecided.
func (s *Scan) Step(ctx context.Context, yield func(*chain.Record) bool) error {
	if s.Done() {
		return nil
	}
	if len(s.found) == 0 && s.next() == s.seen {
		if err := s.readWindow(ctx); err != nil {
			return err
		}
	}
	if len(s.found) == 0 {
		s.advance(s.seen)
		return nil
	}
	return s.read(ctx, s.found[0], yield)
}

// read decides records of candidate c, the first one.
func (s *Scan) read(ctx context.Context, c candidate, yield func(*chain.Record) bool) error {
	from, to := s.run(c)
	if from >= to { // it has no further matches
		s.found = s.found[1:]
		return nil
	}
	if s.backward {
		s.advance(to)
	} else {
		s.advance(from)
	}
	count, before := to-from, s.Read
	read := s.reader.Records
	if s.backward {
		read = s.reader.RecordsBackward
	}
	err := read(ctx, s.chainID, from, to, func(r *chain.Record) error {
		if at := s.at(); r.Index != at {
			return &DamageError{at, chain.ErrMissing}
		}
		match, err := s.decide(c, r)
		if err != nil {
			return err
		}
		if match && !yield(r) {
			return errStop
		}
		if s.backward {
			s.advance(r.Index)
		} else {
			s.advance(r.Index + 1)
		}
		count--
		if r.IsPruned() && s.filter.NeedsPayload() && s.isCandidate(c, r.Index) {
			s.Pruned++
		}
		s.Read += int64(len(r.Payload) + len(r.Delegation))
		if s.Read-before >= stepBytes {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return nil
	}
	if err == nil && count > 0 {
		err = &DamageError{s.at(), chain.ErrMissing}
	}
	return err
}

// at returns the index of the next record to decide.
func (s *Scan) at() int64 {
	if s.backward {
		return s.To - 1
	}
	return s.From
}

// isCandidate reports whether the summary of a candidate, if there is one, lets a record match.
func (s *Scan) isCandidate(c candidate, index int64) bool {
	return c.verdicts == nil || c.verdicts[index%Width] != No
}

// decide reports whether a record of a candidate matches. If the summary says Yes, the record is
// returned unchecked; its verification is up to the caller. Of a record whose payload was pruned
// the summary, which is not signed, is all that is left, so it matches no condition on payloads,
// and is only counted.
func (s *Scan) decide(c candidate, r *chain.Record) (bool, error) {
	if r.IsPruned() && s.filter.NeedsPayload() {
		return s.counting && c.verdicts != nil && c.verdicts[r.Index%Width] == Yes, nil
	}
	if c.verdicts != nil {
		switch c.verdicts[r.Index%Width] {
		case No:
			return false, nil
		case Yes:
			return true, nil
		}
	}
	if s.filter == (Filter{}) {
		return true, nil
	}
	return s.filter.matches(r, &s.terms)
}

// run returns the next records of a candidate to read: possible matches that are close together.
func (s *Scan) run(c candidate) (from, to int64) {
	from, to = s.clamp(c.from, c.to)
	if c.verdicts == nil {
		if s.backward {
			return max(from, to-stepRecords), to
		}
		return from, min(to, from+stepRecords)
	}
	no := func(i int64) bool { return c.verdicts[i%Width] == No }
	for from < to && no(from) {
		from++
	}
	for from < to && no(to-1) {
		to--
	}
	misses := int64(0)
	if s.backward {
		for i := to - 1; i >= from; i-- {
			if misses++; !no(i) {
				misses = 0
			} else if misses > nearRecords {
				return i + misses, to
			}
		}
		return from, to
	}
	for i := from; i < to; i++ {
		if misses++; !no(i) {
			misses = 0
		} else if misses > nearRecords {
			return from, i + 1 - misses
		}
	}
	return from, to
}
