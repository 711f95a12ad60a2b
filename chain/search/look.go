package search

import (
	"context"
	"errors"
)

// look reads the next summaries.
func (s *Scan) look(ctx context.Context) error {
	if !s.filter.hasTerms() {
		s.seen = s.From + s.To - s.next()
		s.found = append(s.found, candidate{s.From, s.To, nil})
		return nil
	}
	ranges, end := s.window()
	next := s.next()
	err := s.reader.Summaries(ctx, s.chain, ranges[0], ranges[1], s.backward, func(index int64, summary []byte) error {
		var verdicts Verdicts
		any, err := s.filter.Judge(summary, &verdicts)
		if err != nil {
			return nil // as if it were not there
		}
		from, to := s.clip(index*Width, (index+1)*Width)
		s.gap(next, from, to)
		if any {
			s.found = append(s.found, candidate{from, to, &verdicts})
		}
		if next = to; s.backward {
			next = from
		}
		if len(s.found) >= windowCandidates {
			return errEnough
		}
		return nil
	})
	switch {
	case err == nil:
		s.gap(next, end, end)
		s.seen = end
	case errors.Is(err, errEnough):
		s.seen = next
	default:
		return err
	}
	return nil
}

// window is the next summaries to be read, and where the records end that they are of.
func (s *Scan) window() (ranges [2]int64, end int64) {
	if s.backward {
		last := (s.To-1)/Width + 1
		ranges = [2]int64{max(last-windowSummaries, s.From/Width), last}
		end, _ = s.clip(ranges[0]*Width, s.To)
		return ranges, end
	}
	first := s.From / Width
	ranges = [2]int64{first, min(first+windowSummaries, (s.To-1)/Width+1)}
	_, end = s.clip(s.From, ranges[1]*Width)
	return ranges, end
}

// gap makes a candidate of the records between what was seen and the range [from, to): they have no
// summary.
func (s *Scan) gap(next, from, to int64) {
	switch {
	case s.backward && to < next:
		s.found = append(s.found, candidate{to, next, nil})
	case !s.backward && next < from:
		s.found = append(s.found, candidate{next, from, nil})
	}
}

func (s *Scan) clip(from, to int64) (int64, int64) { return max(from, s.From), min(to, s.To) }
