package store

import (
	"context"
	"errors"
	"time"

	"attestd/chain"
)

// urgently is the writeFunc of what must be done also while nothing else may be written, because
// the database went back or the clock is wrong. With a wrong clock, by.At and the time of the
// records are the newest time in the file: a time of the far future would stay there.
func (s *Store) urgently(by *Caller) writeFunc {
	return func(ctx context.Context, rows func(*conn) ([]chain.Draft, error)) ([]chain.Record, error) {
		if s.writer == nil {
			return nil, errReadOnly
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

// wrongClock says whether now is too long after the newest time in the file, and returns that.
func (w *writer) wrongClock(now time.Time) (newest time.Time, wrong bool) {
	if w.conn == nil {
		return now, false // Begin finds out
	}
	err := w.clock.check(w.conn, now)
	w.conn.fatal = nil
	if !errors.Is(err, ErrClock) {
		return now, false
	}
	newest, err = parseTime(w.clock.newest)
	return newest, err == nil
}

// mayBegin is why no transaction may begin; nil where one may. The one that is urgent may also
// where the database went back.
func (w *writer) mayBegin() error {
	urgent := w.urgent
	w.urgent = false
	if reason := w.stopped.Load(); reason != nil && !(urgent && errors.Is(*reason, ErrRolledBack)) {
		return *reason
	}
	return nil
}
