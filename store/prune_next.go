package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/internal/sleep"
	"attestd/store/db"
)

// PruneNext deletes payloads of the caller's company that may go since BeginPrune, those of at most
// so many records, in small transactions. left is the number of records that it has not come to.
// After a process was killed, the next call continues.
func (s Pruning) PruneNext(ctx context.Context, by Caller, most int64) (left int64, err error) {
	p, err := s.view.PrunedRecords(ctx, by.Company.Chain)
	if err == nil && p.Records > 0 {
		left, err = s.pruneNext(ctx, by, p.Records, most)
	}
	if err != nil {
		return 0, fmt.Errorf("prune the payloads of company %q: %w", by.Company.ID, err)
	}
	return left, nil
}

func (s Pruning) pruneNext(ctx context.Context, by Caller, records, most int64) (left int64, err error) {
	number := by.Company.Chain
	at, err := s.db.PrunedSoFar(ctx, number, records)
	for done := int64(0); err == nil && at < records && done < most; {
		began := time.Now()
		to := min(at+pruneStep, records, at+most-done)
		if err := s.db.intact(number); err != nil {
			return 0, err
		}
		if err := s.db.Write(ctx, func(w *db.Conn) error { return s.takePayloads(w, number, at, to) }); err != nil {
			return 0, err
		}
		done += to - at
		if at = to; at == records {
			at, err = s.db.FirstPayload(ctx, number, records)
		}
		if err == nil && at < records && done < most {
			err = sleep.For(ctx, pruneRest*time.Since(began))
		}
	}
	return records - at, err
}

// takePayloads empties the payloads of the records [from, to), and overwrites them in a file.
func (s Pruning) takePayloads(w *db.Conn, number, from, to int64) error {
	if err := s.db.overwriteDeleted(w, true); err != nil {
		return err
	}
	_, err := w.Exec(`UPDATE record SET payload = '' WHERE id BETWEEN ? AND ? AND octet_length(payload) > 0`,
		db.RecordID(number, from), db.RecordID(number, to)-1)
	return errors.Join(err, s.db.overwriteDeleted(w, false))
}
