package ledger

import (
	"context"
	"errors"
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

// wrongClock reports whether now is more than maxGap years after the newest time in the file, and
// returns that time.
func (w *writer) wrongClock(now time.Time) (newest time.Time, wrong bool) {
	if w.conn == nil {
		return now, false // Begin reports the error
	}
	err := w.clock.Check(w.conn, now)
	w.conn.Fatal = nil
	if !errors.Is(err, db.ErrClock) {
		return now, false
	}
	newest, err = db.ParseTime(w.clock.Newest)
	return newest, err == nil
}

// mayBegin returns why no transaction may begin, or nil. An urgent one may begin even if the
// database was rolled back.
func (w *writer) mayBegin() error {
	urgent := w.urgent
	w.urgent = false
	if reason := w.stopped.Load(); reason != nil && !(urgent && errors.Is(*reason, db.ErrRolledBack)) {
		return *reason
	}
	return nil
}
