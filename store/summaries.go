package store

import (
	"bytes"
	"context"
	"errors"

	"attestd/chain/search"
	"attestd/store/ledger"
)

// summarized is the first schema with summaries.
const summarized = 10

// checkSummaries compares the summaries of a valid chain with its records. A wrong summary could
// hide a record from searches, so it makes the verdict fail at the first record of its range. Those
// of ranges with a payload that may be missing cannot be compared: they stay as they are.
func (s *Store) checkSummaries(ctx context.Context, v *ChainVerdict, pruned int64) error {
	if s.Schema() < summarized {
		return nil
	}
	for next, last := (pruned+search.Width-1)/search.Width, int64(1)<<ledger.SummaryBits; next < last; {
		index, terms := last, []byte(nil) // of the next existing summary
		err := s.Summaries(ctx, v.Chain, next, last, false, func(at int64, summary []byte) error {
			index, terms = at, bytes.Clone(summary)
			return errFound
		})
		if err != nil && !errors.Is(err, errFound) {
			return err
		}
		if next = index + 1; index == last {
			break
		}
		reason := "a summary stands beyond the last record"
		if (index+1)*search.Width > v.Length { // it may have been appended since
			head, _, err := s.Tip(ctx, v.Chain)
			if err != nil {
				return err
			}
			if (index+1)*search.Width <= head.Length {
				return nil
			}
		} else {
			reason = "the summary of its range is not what follows from the records; delete that row and a server makes it anew"
			want, err := search.Summarize(ctx, s, v.Chain, index)
			if err != nil {
				return err
			}
			if bytes.Equal(terms, want) {
				continue
			}
		}
		v.Valid, v.FailedAt, v.Reason = false, index*search.Width, reason
		return nil
	}
	return nil
}

var errFound = errors.New("found")
