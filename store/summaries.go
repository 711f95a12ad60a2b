package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain/search"
	"attestd/store/db"
)

// summarized is the first schema with summaries.
const summarized = 10

// summaryID returns the row ID of a summary: like db.RecordID, it combines the chain's ID and the
// index.
func summaryID(number, index int64) int64 { return number<<summaryBits + index }

const summaryBits = db.IndexBits - 8 // one summary covers 2⁸ records

// Summaries implements search.Reader.
func (s *Store) Summaries(
	ctx context.Context, number, from, to int64, backward bool, yield func(index int64, summary []byte) error,
) error {
	order := ""
	if backward {
		order = " DESC"
	}
	var id int64
	var terms sql.RawBytes
	return s.Read(ctx, func(c *db.Conn) error {
		return c.Each(func(rows *sql.Rows) error {
			if err := errors.Join(ctx.Err(), rows.Scan(&id, &terms)); err != nil {
				return fmt.Errorf("summaries of chain %d: %w", number, err)
			}
			return yield(id-summaryID(number, 0), terms)
		}, `SELECT id, terms FROM summary WHERE id BETWEEN ? AND ? ORDER BY id`+
			order, summaryID(number, from), summaryID(number, to)-1)
	})
}

// insertSummaries inserts summaries. An existing row was computed from the same records, or
// somebody has altered the database; verification compares them.
func insertSummaries(w *db.Conn, ready []search.Ready) error {
	for _, r := range ready {
		if _, err := w.Exec(`INSERT INTO summary (id, terms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`,
			summaryID(r.Chain, r.Index), r.Terms); err != nil {
			return err
		}
	}
	return nil
}

// checkSummaries compares the summaries of a valid chain with its records. A wrong summary could
// hide a record from searches, so it makes the verdict fail at the first record of its range. Those
// of ranges with a payload that may be missing cannot be compared: they stay as they are.
func (s *Store) checkSummaries(ctx context.Context, v *ChainVerdict, pruned int64) error {
	if s.Schema() < summarized {
		return nil
	}
	for next, last := (pruned+search.Width-1)/search.Width, int64(1)<<summaryBits; next < last; {
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
