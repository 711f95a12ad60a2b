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
func (l *Ledger) Urgently(at *time.Time) WriteFunc {
	return func(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error) {
		if l.writer == nil {
			return nil, db.ErrReadOnly
		}
		return l.log.WriteAlone(ctx, func(now time.Time) time.Time {
			l.writer.urgent = true
			if newest, wrong := l.writer.wrongClock(now); wrong {
				*at = newest
				return newest
			}
			return now
		}, l.changing(rows))
	}
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
