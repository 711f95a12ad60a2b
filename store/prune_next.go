package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sort"
	"time"

	"attestd/internal/sleep"
	"attestd/store/db"
)

// PruneNext takes away payloads of the caller's company that may go since BeginPrune, those of at
// most so many records, in small transactions. left is the number of records that it has not come
// to. After a process was killed, the next call goes on.
func (s *Store) PruneNext(ctx context.Context, by Caller, most int64) (left int64, err error) {
	p, err := s.PrunedRecords(ctx, by.Company.Chain)
	if err == nil && p.Records > 0 {
		left, err = s.pruneNext(ctx, by, p.Records, most)
	}
	if err != nil {
		return 0, fmt.Errorf("prune the payloads of company %q: %w", by.Company.ID, err)
	}
	return left, nil
}

func (s *Store) pruneNext(ctx context.Context, by Caller, records, most int64) (left int64, err error) {
	number := by.Company.Chain
	at, err := s.prunedSoFar(ctx, number, records)
	for done := int64(0); err == nil && at < records && done < most; {
		began := time.Now()
		to := min(at+pruneStep, records, at+most-done)
		if err := s.Tables.intact(number); err != nil {
			return 0, err
		}
		if err := s.Write(ctx, func(w *db.Conn) error { return s.takePayloads(w, number, at, to) }); err != nil {
			return 0, err
		}
		done += to - at
		if at = to; at == records {
			at, err = s.firstPayload(ctx, number, records)
		}
		if err == nil && at < records && done < most {
			err = sleep.For(ctx, pruneRest*time.Since(began))
		}
	}
	return records - at, err
}

// takePayloads empties the payloads of the records [from, to), and overwrites them in a file.
func (s *Store) takePayloads(w *db.Conn, number, from, to int64) error {
	if err := s.Companies.overwriteDeleted(w, true); err != nil {
		return err
	}
	_, err := w.Exec(`UPDATE record SET payload = '' WHERE id BETWEEN ? AND ? AND octet_length(payload) > 0`,
		db.RecordID(number, from), db.RecordID(number, to)-1)
	return errors.Join(err, s.Companies.overwriteDeleted(w, false))
}

// prunedSoFar returns the index of the first record of a chain with a payload, or records. Payloads
// go in the order of their records, so it reads few rows.
func (s *Store) prunedSoFar(ctx context.Context, number, records int64) (at int64, err error) {
	err = s.Read(ctx, func(c *db.Conn) (err error) {
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

// firstPayload is prunedSoFar where somebody else may have taken payloads away: it reads all rows,
// in short reads.
func (s *Store) firstPayload(ctx context.Context, number, records int64) (int64, error) {
	for at := int64(0); at < records; at += countStep {
		var id sql.NullInt64
		err := s.Read(ctx, func(c *db.Conn) error {
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
