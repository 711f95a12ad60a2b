package search

import (
	"context"
	"errors"
	"slices"

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

// Count returns the number of matching records of a chain between each two neighbours in borders,
// which MUST ascend. It reads only records that no summary decides. It leaves out those whose
// payload was pruned in ranges without a summary.
func Count(ctx context.Context, r Reader, chainID int64, f Filter, borders []int64) ([]int64, error) {
	counts := make([]int64, len(borders)-1)
	at := 0
	add := func(index int64) {
		for index >= borders[at+1] {
			at++
		}
		counts[at]++
	}
	if !f.hasTerms() && !f.NeedsRecords() {
		for i := range counts {
			counts[i] = borders[i+1] - borders[i]
		}
		return counts, nil
	}
	s := NewScan(r, chainID, f, borders[0], borders[len(borders)-1], false)
	s.counting = true
	for !s.Done() {
		if err := s.count(ctx, add); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// count is Step for a caller that needs only the indexes of matching records.
func (s *Scan) count(ctx context.Context, add func(index int64)) error {
	if len(s.found) == 0 || s.found[0].verdicts == nil || slices.Contains(s.found[0].verdicts[:], Maybe) {
		return s.Step(ctx, func(r *chain.Record) bool {
			add(r.Index)
			return true
		})
	}
	c := s.found[0]
	from, to := s.clamp(c.from, c.to)
	for i := from; i < to; i++ {
		if c.verdicts[i%Width] == Yes {
			add(i)
		}
	}
	s.advance(to)
	s.found = s.found[1:]
	return nil
}

// readWindow reads the next summaries.
func (s *Scan) readWindow(ctx context.Context) error {
	if !s.filter.hasTerms() {
		s.seen = s.From + s.To - s.next()
		s.found = append(s.found, candidate{s.From, s.To, nil})
		return nil
	}
	ranges, end := s.window()
	next := s.next()
	err := s.reader.Summaries(ctx, s.chainID, ranges[0], ranges[1], s.backward, func(index int64, summary []byte) error {
		var verdicts Verdicts
		any, err := s.filter.MatchSummary(summary, &verdicts)
		if err != nil {
			return nil // treat it as missing
		}
		from, to := s.clamp(index*Width, (index+1)*Width)
		s.gap(next, from, to)
		if any {
			s.found = append(s.found, candidate{from, to, &verdicts})
		}
		if next = to; s.backward {
			next = from
		}
		if len(s.found) >= windowCandidates {
			return errStop
		}
		return nil
	})
	switch {
	case err == nil:
		s.gap(next, end, end)
		s.seen = end
	case errors.Is(err, errStop):
		s.seen = next
	default:
		return err
	}
	return nil
}

// window returns the range of the next summaries to read, and the end of their records in the
// direction of the scan.
func (s *Scan) window() (ranges [2]int64, end int64) {
	if s.backward {
		last := (s.To-1)/Width + 1
		ranges = [2]int64{max(last-windowSummaries, s.From/Width), last}
		end, _ = s.clamp(ranges[0]*Width, s.To)
		return ranges, end
	}
	first := s.From / Width
	ranges = [2]int64{first, min(first+windowSummaries, (s.To-1)/Width+1)}
	_, end = s.clamp(s.From, ranges[1]*Width)
	return ranges, end
}

// gap adds the records without a summary before [from, to) as a candidate.
func (s *Scan) gap(next, from, to int64) {
	switch {
	case s.backward && to < next:
		s.found = append(s.found, candidate{to, next, nil})
	case !s.backward && next < from:
		s.found = append(s.found, candidate{next, from, nil})
	}
}

func (s *Scan) clamp(from, to int64) (int64, int64) { return max(from, s.From), min(to, s.To) }
