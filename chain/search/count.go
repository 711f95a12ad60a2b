package search

import (
	"context"
	"slices"

	"attestd/chain"
)

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
