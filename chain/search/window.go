package search

import (
	"context"
	"errors"
)

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
