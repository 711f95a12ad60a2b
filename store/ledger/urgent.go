package ledger

import (
	"context"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// Urgently returns the WriteFunc for changes that must be possible even while other writes are
// refused because the database was rolled back or the clock is wrong. With a wrong clock, at and
// the time of the records are the newest time in the file, because a time in the far future would
// stay in it.
func (l *Ledger) Urgently(at *time.Time) WriteFunc { return urgentWrite{l, at}.change }

type urgentWrite struct {
	ledger *Ledger
	at     *time.Time
}

func (u urgentWrite) change(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error) {
	if u.ledger.writer == nil {
		return nil, db.ErrReadOnly
	}
	return u.ledger.log.WriteAlone(ctx, u.prepare, change{u.ledger.storage, rows}.write)
}

// prepare returns the time of the transaction.
func (u urgentWrite) prepare(now time.Time) time.Time {
	u.ledger.writer.urgent = true
	if newest, wrong := u.ledger.writer.wrongClock(now); wrong {
		*u.at = newest
		return newest
	}
	return now
}
