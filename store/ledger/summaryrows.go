package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain/search"
	"attestd/store/db"
)

// SummaryID returns the row ID of a summary: like db.RecordID, it combines the chain's ID and the
// index.
func SummaryID(number, index int64) int64 { return number<<SummaryBits + index }

const SummaryBits = db.IndexBits - 8 // one summary covers 2⁸ records

// Summaries implements search.Reader.
func (l *Ledger) Summaries(
	ctx context.Context, number, from, to int64, backward bool, yield func(index int64, summary []byte) error,
) error {
	order := ""
	if backward {
		order = " DESC"
	}
	var id int64
	var terms sql.RawBytes
	return l.Read(ctx, func(c *db.Conn) error {
		return c.Each(func(rows *sql.Rows) error {
			if err := errors.Join(ctx.Err(), rows.Scan(&id, &terms)); err != nil {
				return fmt.Errorf("summaries of chain %d: %w", number, err)
			}
			return yield(id-SummaryID(number, 0), terms)
		}, `SELECT id, terms FROM summary WHERE id BETWEEN ? AND ? ORDER BY id`+
			order, SummaryID(number, from), SummaryID(number, to)-1)
	})
}

// InsertSummaries inserts summaries. An existing row was computed from the same records, or the
// database was altered; verification compares them.
func InsertSummaries(w *db.Conn, ready []search.Ready) error {
	for _, r := range ready {
		if _, err := w.Exec(`INSERT INTO summary (id, terms) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`,
			SummaryID(r.Chain, r.Index), r.Terms); err != nil {
			return err
		}
	}
	return nil
}
