package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"attestd/chain"
	"attestd/internal/bounded"
	"attestd/internal/sleep"
)

const (
	answerTimeout = 8 * time.Second  // for one round trip; then the connection is closed
	reachTimeout  = 12 * time.Second // for a connection, and for the outcome of a commit
	// for a connection after a failed attempt, because other writes wait meanwhile
	downTimeout  = 3 * time.Second
	batchTimeout = answerTimeout + reachTimeout
	retryPause   = 50 * time.Millisecond
)

// mine is the SQL condition on a row of table writer that the statement's session has created it,
// and that its commits wait for the disk. Behind a pooler with a changed mode, the session may be
// another one.
const mine = `current_setting('attestd.writer', true) = id::text AND current_setting('synchronous_commit') NOT IN ('off', 'local')`

// changesLock is the advisory lock that serializes the servers' changes of rows.
const changesLock = 0x6174737464 // "atstd"

var (
	errFenced = errors.New("postgres: another connection of this server has ended this one, or its session is not the one that it was")
	errNotOne = errors.New("postgres: COMMIT has rolled back")
)

// Writer writes for one server, with one connection at a time, and a row in table writer for each.
// A writing transaction requires this row, and stores its number in it.
//
// So the outcome of a commit whose answer was lost can be found by deleting the row on another
// connection. The deletion waits for what the old connection's backend still does. Afterwards
// nothing from the old connection can be written, and the number in the row says whether the last
// transaction was. This also holds after a failover, because the deletion waits for the standby
// like every transaction.
type Writer struct {
	closing context.Context // ends the pauses between attempts, and all attempts but one

	db     *sql.DB
	notes  *atomic.Int64 // number of warnings from the servers; see committed
	conn   *sql.Conn     // nil while not connected
	native *pgx.Conn
	row    int64 // ID in table writer; 0 before the first connection
	seq    int64 // number of the last transaction to be committed on this connection
	open   bool  // a transaction is open

	// content of row, read by a transaction that deleted it and whose outcome is unknown
	left    *receipt
	ended   receipt // content of the previous row
	failing int     // failed attempts since the last success
	down    bool    // the last connection was not established in time

	suspicious bool // the last batch met a row beyond the head of a chain

	begun time.Time // start of the current batch, or of one shortly before it

	shared *bounded.Map[int64, *other] // chains that other servers have extended recently
}

// receipt is what a transaction stores in the row of its writer.
type receipt struct {
	known bool
	seq   int64
	moved []int64
}

// NewWriter returns a writer without a connection. After closing is done it tries everything only
// once. notes counts the warnings on db's connections.
func NewWriter(closing context.Context, db *sql.DB, notes *atomic.Int64) *Writer {
	return &Writer{closing: closing, db: db, notes: notes, shared: bounded.NewMap[int64, *other](maxShared)}
}

// Conn returns the connection for a batch, or for another attempt at it, and opens a new one if the
// last has ended. Everything done for the batch ends within batchTimeout.
func (w *Writer) Conn() (*sql.Conn, error) {
	// no attempt at a batch is later than this
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

// deadline returns the deadline of an operation of the batch that begins now.
func (w *Writer) deadline(patience time.Duration) time.Time {
	at, end := time.Now().Add(patience), w.begun.Add(batchTimeout)
	if at.After(end) {
		return end
	}
	return at
}

// reach opens a connection with a row, and deletes the row of the previous connection. It retries
// until the deadline, or until the writer is closing.
func (w *Writer) reach(deadline time.Time) (err error) {
	for {
		w.HangUp()
		// other servers that lost their connection at the same time should retry at other times
		if w.failing > 0 {
			_ = sleep.For(w.closing, retryPause/2+rand.N(retryPause))
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
		if class := ClassOf(err); class == Other || class == Constraint || time.Now().After(deadline) ||
			w.closing.Err() != nil {
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

// renew deletes the old row and inserts a new one in one transaction.
func (w *Writer) renew(deadline time.Time) error {
	var r receipt
	b := &pgx.Batch{}
	// a backend that waits for a lock does not notice that its client is gone
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
	b.Queue(`WITH made AS (INSERT INTO writer (started_at, schema) VALUES ($1, `+strconv.Itoa(Version)+`) RETURNING id)
		SELECT id FROM made WHERE set_config('attestd.writer', id::text, false) IS NOT NULL`, chain.FormatTime(time.Now())).QueryRow(func(made pgx.Row) error { return made.Scan(&row) })
	// Delete the rows of servers that are gone. One that is not inserts a new row.
	b.Queue(`DELETE FROM writer WHERE id IN (SELECT id FROM writer
		WHERE touched < now() - interval '7 days' FOR UPDATE SKIP LOCKED)`)
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

// HangUp closes the connection, which rolls back an open transaction.
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

// Close closes the writer and deletes its row. If the connection is lost, the row stays as after a
// crash, and a later server deletes it.
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

// send runs a batch in one round trip, under a context that never ends. Ending a context sends a
// cancel request, after which a commit that waits for the standby reports success. If the server
// does not answer in time, the connection is closed.
func (w *Writer) send(b *pgx.Batch, deadline time.Time) error {
	wire := w.native.PgConn().Conn()
	stuck := time.AfterFunc(min(time.Until(deadline), answerTimeout), func() { _ = wire.Close() })
	defer stuck.Stop()
	return w.native.SendBatch(context.Background(), b).Close()
}
