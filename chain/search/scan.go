package search

import (
	"context"
	"errors"

	"attestd/chain"
)

const (
	stepRecords = 1 << 10 // of one read: a long read transaction would stop WAL checkpoints
	stepBytes   = 1 << 18 // of what was read in it, after which it ends
	nearRecords = 4       // between two that match, so few that they are read with them

	windowSummaries  = 1 << 9 // of one read
	windowCandidates = 16     // found in it, after which it ends: their verdicts stand in memory
)

// Scan goes through the records [From, To) of a chain, which become fewer from one end as it
// decides them.
type Scan struct {
	From, To int64 // numbers of the records that are not decided yet
	Read     int64 // bytes of payloads and delegations that were read

	reader   Reader
	chain    int64
	filter   Filter
	backward bool
	// what lies ahead in [From, To) as far as summaries were read, in the order of the scan
	found []candidate
	seen  int64 // where they end: what lies between matches nothing, but for what is found
	terms Terms
}

// candidate is a range of records of which some may match.
type candidate struct {
	from, to int64
	verdicts *Verdicts // of the range of Width that they are of; nil where all is to be read
}

// NewScan begins a scan of records that all exist.
func NewScan(r Reader, chain int64, f Filter, from, to int64, backward bool) *Scan {
	s := &Scan{From: from, To: max(from, to), reader: r, chain: chain, filter: f, backward: backward}
	s.seen = s.next()
	return s
}

// Done says whether all is decided.
func (s *Scan) Done() bool { return s.From >= s.To }

// next is the border between what is decided and what is not.
func (s *Scan) next() int64 {
	if s.backward {
		return s.To
	}
	return s.From
}

// advance puts the border behind what has been decided since.
func (s *Scan) advance(to int64) {
	if s.backward {
		s.To = max(to, s.From)
	} else {
		s.From = min(to, s.To)
	}
}

var errEnough = errors.New("search: enough was read")

// Step decides some records, in one short read or two, and calls yield for those that match. Where
// yield returns false, that record is not decided, and the step ends. What is read in a step is
// bounded in records and bytes. A damaged record is a *DamageError, and stays undecided.
func (s *Scan) Step(ctx context.Context, yield func(*chain.Record) bool) error {
	if s.Done() {
		return nil
	}
	if len(s.found) == 0 && s.next() == s.seen {
		if err := s.look(ctx); err != nil {
			return err
		}
	}
	if len(s.found) == 0 {
		s.advance(s.seen)
		return nil
	}
	return s.read(ctx, s.found[0], yield)
}

// read decides records of the first candidate.
func (s *Scan) read(ctx context.Context, c candidate, yield func(*chain.Record) bool) error {
	from, to := s.run(c)
	if from >= to { // nothing more of it matches
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
	err := read(ctx, s.chain, from, to, func(r *chain.Record) error {
		if at := s.at(); r.Index != at {
			return &DamageError{at, chain.ErrMissing}
		}
		match, err := s.decide(c, r)
		if err != nil {
			return err
		}
		if match && !yield(r) {
			return errEnough
		}
		if s.backward {
			s.advance(r.Index)
		} else {
			s.advance(r.Index + 1)
		}
		count--
		s.Read += int64(len(r.Payload) + len(r.Delegation))
		if s.Read-before >= stepBytes {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err == nil && count > 0 {
		err = &DamageError{s.at(), chain.ErrMissing}
	}
	return err
}

// at is the number of the record that is decided next.
func (s *Scan) at() int64 {
	if s.backward {
		return s.To - 1
	}
	return s.From
}

// decide says whether a record of a candidate matches. One that its summary found is given as it
// stands, for what it says now is the reader's to judge.
func (s *Scan) decide(c candidate, r *chain.Record) (bool, error) {
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

// run is the next records of a candidate that are worth a read: those that may match and stand near
// one another.
func (s *Scan) run(c candidate) (from, to int64) {
	from, to = s.clip(c.from, c.to)
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
