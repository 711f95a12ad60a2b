package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// sessionsPage is the number of sessions that one read looks at.
const sessionsPage = 64

// endedSession is a session whose last record is old.
type endedSession struct {
	Session
	company     int64
	first, last chain.Hash // its names in idempotency_key are between them
	series      chain.Series
	index       int64 // of its last record
}

// Sessions deletes sessions without statements whose last record is old: the row by which one is
// listed, and the names by which its records are found. The records stay. series names the records
// of a session; ok is false for one of statements, whose names are never free again.
func (s Expired) Sessions(ctx context.Context, w Sweep, series func(Session) (of chain.Series, ok bool)) error {
	if w.Keep.Sessions == Forever {
		return nil
	}
	return s.sweep(ctx, "sessions", w, func(now time.Time) error {
		until := chain.FormatTime(now.Add(-w.Keep.Sessions))
		for after, more := int64(0), true; more; {
			began := time.Now()
			var ended []endedSession
			err := s.db.Read(ctx, func(c *db.Conn) (err error) {
				ended, after, more, err = endedSessions(c, after, until, series)
				return err
			})
			if err == nil {
				err = w.Pace.rest(ctx, began)
			}
			for i := 0; err == nil && i < len(ended); i++ {
				err = s.session(ctx, w, &ended[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// endedSessions looks at the sessions after a row. last is the last row that it has looked at.
func endedSessions(c *db.Conn,
	after int64, until string, series func(Session) (of chain.Series, ok bool),
) (ended []endedSession, last int64, more bool, err error) {
	page, err := db.All(c, func(rows *sql.Rows) (e endedSession, err error) {
		err = rows.Scan(&e.Number, &e.AgentID, &e.Key, &e.ID, &e.company)
		return e, err
	}, fmt.Sprintf(`SELECT %s, company FROM agent_session WHERE id > ? ORDER BY id LIMIT %d`, sessionColumns, sessionsPage), after)
	last = after
	for _, e := range page {
		if err != nil {
			break
		}
		last = e.Number
		of, ok := series(e.Session)
		if !ok {
			continue
		}
		e.series, e.first, e.last = of, of.At(0), of.At(math.MaxInt64)
		var at string
		err = c.One([]any{&e.index, &at}, `SELECT idx, timestamp FROM idempotency_key k JOIN record ON record.id = k.chain * 1099511627776 + k.idx
			WHERE k.chain = ? AND name BETWEEN ? AND ? AND request = ? ORDER BY name DESC LIMIT 1`, e.company, e.first[:], e.last[:], e.series[:])
		switch {
		case err == nil && at <= until:
			ended = append(ended, e)
		case errors.Is(err, db.ErrNotFound): // its first record is being appended, or was refused
			err = nil
		}
	}
	return ended, last, len(page) == sessionsPage, err
}

// session deletes a session, the names of its first records first, so that one of which a part is
// gone is still found as ended. A session that has another record by now has not ended: this server
// may have been halted since it looked.
func (s Expired) session(ctx context.Context, w Sweep, e *endedSession) error {
	for n := int64(sweepRows); n == sweepRows; {
		began := time.Now()
		rows := int64(0)
		err := s.db.Write(ctx, func(c *db.Conn) (err error) {
			n, rows = 0, 0
			var newest int64
			err = c.One([]any{&newest}, `SELECT idx FROM idempotency_key WHERE chain = ? AND name BETWEEN ? AND ? AND request = ?
				ORDER BY name DESC LIMIT 1`, e.company, e.first[:], e.last[:], e.series[:])
			if err == nil && newest != e.index {
				return nil
			}
			// another server may have deleted the names
			if err != nil && !errors.Is(err, db.ErrNotFound) {
				return err
			}
			n, err = c.Exec(fmt.Sprintf(`DELETE FROM idempotency_key WHERE chain = ?1 AND name IN (SELECT name FROM idempotency_key
				WHERE chain = ?1 AND name BETWEEN ?2 AND ?3 AND request = ?4 AND idx <= ?5 ORDER BY name LIMIT %d)`, sweepRows),
				e.company, e.first[:], e.last[:], e.series[:], e.index)
			if err != nil || n == sweepRows {
				return err
			}
			rows, err = c.Exec(`DELETE FROM agent_session WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM idempotency_key
				WHERE chain = ?2 AND name BETWEEN ?3 AND ?4 AND request = ?5)`, e.Number, e.company, e.first[:], e.last[:], e.series[:])
			return err
		})
		if err != nil {
			return err
		}
		if rows > 0 {
			w.Deleted(KindSession, rows)
		}
		if err := w.Pace.rest(ctx, began); err != nil {
			return err
		}
	}
	return nil
}
