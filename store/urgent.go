package store

import (
	"context"
	"errors"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// urgently returns the writeFunc for changes that must be possible even while other writes are
// refused because the database was rolled back or the clock is wrong. With a wrong clock, by.At and
// the time of the records are the newest time in the file, because a time in the far future would
// stay in it.
func (s *Store) urgently(by *Caller) writeFunc {
	return func(ctx context.Context, rows func(*db.Conn) ([]chain.Draft, error)) ([]chain.Record, error) {
		if s.writer == nil {
			return nil, db.ErrReadOnly
		}
		return s.log.WriteAlone(ctx, func(now time.Time) time.Time {
			s.writer.urgent = true
			if newest, wrong := s.writer.wrongClock(now); wrong {
				by.At = newest
				return newest
			}
			return now
		}, s.changing(rows))
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
