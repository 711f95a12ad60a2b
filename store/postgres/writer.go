package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
)

const (
	answerTimeout = 8 * time.Second  // for one round trip: then the connection is given up
	reachTimeout  = 12 * time.Second // for a connection, and for what became of a commit
	// for a connection after one that was not made: others wait behind whoever asks for it
	downTimeout  = 3 * time.Second
	batchTimeout = answerTimeout + reachTimeout
	retryPause   = 50 * time.Millisecond
)

// mine is of a row of table writer whether the session of the statement is the one that has made
// it, and its commits wait for the disk. Behind a pooler that was switched it is somebody else's.
const mine = `current_setting('attestd.writer', true) = id::text AND current_setting('synchronous_commit') NOT IN ('off', 'local')`

// changesLock is the advisory lock under which servers take turns at changing rows.
const changesLock = 0x6174737464 // "atstd"

var (
	errFenced = errors.New("postgres: another connection of this server has ended this one, or its session is not the one that it was")
	errNotOne = errors.New("postgres: COMMIT has rolled back")
)

// Writer is how one server writes: one connection at a time, and with each a row in table writer. A
// transaction that writes demands this row, and leaves its number there.
//
// So the outcome of a commit whose answer was lost is found out by taking the row away, on another
// connection: that waits for what the old connection's backend still does, nothing that is under
// way from it can be written afterwards, and the number in the row says whether the last
// transaction was. Both hold on the other side of a failover too, for the transaction that takes
// the row away waits for the standby like every other.
type Writer struct {
	closing context.Context // ends the pauses between attempts, and all attempts but one

	db     *sql.DB
	notes  *atomic.Int64 // warnings that the servers have sent; see committed
	conn   *sql.Conn     // nil while there is none
	native *pgx.Conn
	row    int64 // of table writer; 0 before the first connection
	seq    int64 // of the last transaction on this connection that was to be committed
	open   bool  // a transaction was begun

	// of row, read by a transaction that took it away and whose own outcome is not known
	left    *receipt
	ended   receipt // of the row before this one
	failing int     // attempts that came to nothing since the last that did
	down    bool    // the last connection was not made in time

	suspicious bool // the last batch met a row beyond the head of a chain

	begun time.Time // when the batch under way, or one shortly before it, was begun

	shared map[int64]*other // chains that other servers have extended lately
}

// receipt is what a transaction leaves in the row of its writer.
type receipt struct {
	known bool
	seq   int64
	moved []int64
}

// NewWriter returns a writer that has no connection yet. Once closing is done it tries everything
// once. notes counts the warnings of db's connections.
func NewWriter(closing context.Context, db *sql.DB, notes *atomic.Int64) *Writer {
	return &Writer{closing: closing, db: db, notes: notes, shared: make(map[int64]*other)}
}

// Conn returns the connection for a batch, or for another attempt at one, and makes a new one where
// the last has ended. All that is done for the batch ends within batchTimeout.
func (w *Writer) Conn() (*sql.Conn, error) {
	// no attempt at a batch comes later
	if now := time.Now(); now.Sub(w.begun) > chain.MaxLostTime {
		w.begun = now
	}
	if w.conn != nil && !w.native.IsClosed() {
		return w.conn, nil
	}
	patience := reachTimeout
	if w.down {
		patience = downTimeout
	}
	if err := w.reach(w.deadline(patience)); err != nil {
		return nil, err
	}
	return w.conn, nil
}

// deadline is when something ends that begins now and belongs to the batch.
func (w *Writer) deadline(patience time.Duration) time.Time {
	at, end := time.Now().Add(patience), w.begun.Add(batchTimeout)
	if at.After(end) {
		return end
	}
	return at
}

// reach makes a connection and a row for it, and takes away the row of the connection before it. It
// tries again until the deadline, or the writer is closing.
func (w *Writer) reach(deadline time.Time) (err error) {
	for {
		w.HangUp()
		// others that lost their connection at the same time come back at other times
		if w.failing > 0 {
			select {
			case <-time.After(retryPause/2 + rand.N(retryPause)):
			case <-w.closing.Done():
			}
		}
		if err = w.dial(deadline); err == nil {
			if err = w.renew(deadline); err == nil {
				w.failing, w.down = 0, false
				return nil
			}
		}
		w.failing++
		if isLockTimeout(err) {
			w.open = true
			w.Rollback()
			w.free()
		}
		if class := ClassOf(err); class == Other || class == Constraint || time.Now().After(deadline) || w.closing.Err() != nil {
			w.HangUp()
			w.down = true
			return err
		}
	}
}

func (w *Writer) dial(deadline time.Time) (err error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if w.conn, w.native, err = connect(ctx, w.db); err == nil {
		wireOf(w.native).silence.Store(int64(answerTimeout))
		err = checkPooler(ctx, w.db, w.conn)
	}
	return err
}

// renew takes the old row away and makes a new one, in one transaction.
func (w *Writer) renew(deadline time.Time) error {
	var r receipt
	b := &pgx.Batch{}
	// a backend that waits for a lock does not notice that nobody waits for it any more
	b.Queue("SET lock_timeout = 4000")
	b.Queue("BEGIN")
	b.Queue(`DELETE FROM writer WHERE id = $1 RETURNING seq, moved`, w.row).Query(func(found pgx.Rows) error {
		for found.Next() {
			if err := found.Scan(&r.seq, &r.moved); err != nil {
				return err
			}
			r.known = true
		}
		return found.Err()
	})
	var row int64
	b.Queue(`WITH made AS (INSERT INTO writer (started_at) VALUES ($1) RETURNING id)
		SELECT id FROM made WHERE set_config('attestd.writer', id::text, false) IS NOT NULL`, chain.FormatTime(time.Now())).QueryRow(func(made pgx.Row) error { return made.Scan(&row) })
	// Those of servers that are gone go; one that is not makes itself a new one.
	b.Queue(`DELETE FROM writer WHERE id IN (SELECT id FROM writer WHERE touched < now() - interval '7 days' FOR UPDATE SKIP LOCKED)`)
	var guarded bool
	b.Queue(`SELECT ` + guardsFire).QueryRow(func(row pgx.Row) error { return row.Scan(&guarded) })
	if err := w.send(b, deadline); err != nil {
		return err
	}
	if !guarded {
		return fmt.Errorf("%w: no guard of the tables fires, for session_replication_role is replica: reset it for the role, the database or the server", ErrRefused)
	}
	switch {
	case r.known:
		w.left = &r
	case w.left == nil:
		w.left = &receipt{known: w.row == 0}
	}
	if err := w.commit(&pgx.Batch{}, true, deadline); err != nil {
		return err
	}
	w.ended, w.left = *w.left, nil
	w.row, w.seq = row, 0
	return nil
}

// HangUp closes the connection, which rolls back whatever it had open.
func (w *Writer) HangUp() {
	if w.conn == nil {
		return
	}
	if w.native != nil {
		_ = w.native.PgConn().Conn().Close() // without waiting for an answer
	}
	_ = w.conn.Close()
	w.conn, w.native, w.open = nil, nil, false
}

// Close ends the writer and takes its row away. Where the connection is lost the row stays, as it
// does after a crash, and a later server takes it away.
func (w *Writer) Close() error {
	if w.conn == nil || w.native.IsClosed() {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM writer WHERE id = $1`, w.row)
	err := w.send(b, time.Now().Add(answerTimeout))
	lost := w.native.IsClosed()
	w.HangUp()
	if lost {
		return nil
	}
	return err
}

// send carries out a batch in one round trip, under a context that nobody ends: to end it is to
// send a cancel, after which a commit that waits for the standby is called a success. A server that
// does not answer in time loses the connection.
func (w *Writer) send(b *pgx.Batch, deadline time.Time) error {
	wire := w.native.PgConn().Conn()
	stuck := time.AfterFunc(min(time.Until(deadline), answerTimeout), func() { _ = wire.Close() })
	defer stuck.Stop()
	return w.native.SendBatch(context.Background(), b).Close()
}
