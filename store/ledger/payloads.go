package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"sort"

	"attestd/store/db"
)

// PrunedSoFar returns the index of the first record of a chain with a payload, or records. Payloads
// go in the order of their records, so it reads few rows.
func (l *Ledger) PrunedSoFar(ctx context.Context, number, records int64) (at int64, err error) {
	err = l.Read(ctx, func(c *db.Conn) (err error) {
		at = int64(sort.Search(int(records), func(i int) bool {
			var has bool
			if err == nil {
				err = c.One([]any{&has}, `SELECT octet_length(payload) > 0 FROM record WHERE id = ?`, db.RecordID(number, int64(i)))
			}
			return has
		}))
		return err
	})
	return at, err
}

// FirstPayload is PrunedSoFar where an external write may have deleted payloads: it reads all rows,
// in short reads.
func (l *Ledger) FirstPayload(ctx context.Context, number, records int64) (int64, error) {
	for at := int64(0); at < records; at += countStep {
		var id sql.NullInt64
		err := l.Read(ctx, func(c *db.Conn) error {
			return c.One([]any{&id}, `SELECT min(id) FROM record WHERE id BETWEEN ? AND ? AND octet_length(payload) > 0`,
				db.RecordID(number, at), db.RecordID(number, min(at+countStep, records))-1)
		})
		if err != nil {
			return 0, err
		}
		if id.Valid {
			return id.Int64 & db.IndexMask, nil
		}
	}
	return records, nil
}

// countStep is the number of records per read, which keeps reads short.
const countStep = 1 << 16

// CountBytes counts the bytes of the first records of a log, up to an index. Of payloads that may
// be missing their control record says how many bytes they have, whether they are missing or not.
func (l *Ledger) CountBytes(ctx context.Context, number int64, prunedBytes, pruned, to int64) (total int64, err error) {
	total = prunedBytes
	for at := int64(0); at < to; at += countStep {
		err := l.Read(ctx, func(r *db.Conn) error {
			n, err := CountBytes(r, number, pruned, at, min(at+countStep, to))
			total += n
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("count the bytes of chain %d: %w", number, err)
		}
	}
	return total, nil
}

// CountBytes counts the bytes of the records [from, to) of a log. Payloads before pruned count
// nothing.
func CountBytes(c *db.Conn, number, pruned, from, to int64) (n int64, err error) {
	err = c.One([]any{&n}, `SELECT CAST(coalesce(sum(CASE WHEN id < ? THEN 0 ELSE octet_length(payload) END + coalesce(octet_length(delegation), 0)), 0) AS BIGINT)
		FROM record WHERE id BETWEEN ? AND ?`, db.RecordID(number, pruned), db.RecordID(number, from), db.RecordID(number, to)-1)
	return n, err
}
