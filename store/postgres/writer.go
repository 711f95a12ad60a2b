package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"attestd/chain"
)

const (
	answerTimeout = 8 * time.Second  // for one round trip: then the connection is given up
	reachTimeout  = 12 * time.Second // for a connection, and for what became of a commit
	downTimeout   = 3 * time.Second  // for a connection after one that was not made: others wait behind whoever asks for it
	batchTimeout  = answerTimeout + reachTimeout
	retryPause    = 50 * time.Millisecond
)

// changesLock is the advisory lock under which servers take turns at changing rows.
const changesLock = 0x6174737464 // "atstd"

var (
	errFenced = errors.New("postgres: another connection of this server has ended this one")
	errNotOne = errors.New("postgres: COMMIT has rolled back")
)

// Writer is how one server writes: one connection at a time, and with each a row in table writer. A transaction that writes demands this row, and leaves its
// number there.
//
// So the outcome of a commit whose answer was lost is found out by taking the row away, on another connection: that waits for what the old connection's backend
// still does, nothing that is under way from it can be written afterwards, and the number in the row says whether the last transaction was. Both hold on the other side of a
// failover too, for the transaction that takes the row away waits for the standby like every other.
type Writer struct {
	db     *sql.DB
	notes  *atomic.Int64 // warnings that the servers have sent; see committed
	conn   *sql.Conn     // nil while there is none
	native *pgx.Conn
	row    int64 // of table writer; 0 before the first connection
	seq    int64 // of the last transaction on this connection that was to be committed
	open   bool  // a transaction was begun

	left    *receipt // of row, read by a transaction that took it away and whose own outcome is not known
	ended   receipt  // of the row before this one
	failing int      // attempts that came to nothing since the last that did
	down    bool     // the last connection was not made in time

	suspicious bool // the last batch met a row beyond the head of a chain

	begun time.Time // when the batch under way, or one shortly before it, was begun

	known  map[int64]state  // of the heads that were read or moved
	shared map[int64]*other // chains that other servers have extended lately
}

// receipt is what a transaction leaves in the row of its writer.
type receipt struct {
	known bool
	seq   int64
	moved []int64
}

// NewWriter returns a writer that has no connection yet. notes counts the warnings of db's connections.
func NewWriter(db *sql.DB, notes *atomic.Int64) *Writer {
	return &Writer{db: db, notes: notes, known: make(map[int64]state), shared: make(map[int64]*other)}
}

// Conn returns the connection for a batch, or for another attempt at one, and makes a new one where the last has ended. All that is done for the batch ends
// within batchTimeout.
func (w *Writer) Conn() (*sql.Conn, error) {
	if now := time.Now(); now.Sub(w.begun) > chain.MaxLostTime { // no attempt at a batch comes later
		w.begun = now
	}
	if w.conn != nil && !w.native.IsClosed() {
		return w.conn, nil
	}
	patience := reachTimeout
	if w.down {
		patience = downTimeout
	}
	if err := w.connect(w.deadline(patience)); err != nil {
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

// connect makes a connection and a row for it, and takes away the row of the connection before it. It tries again until the deadline.
func (w *Writer) connect(deadline time.Time) (err error) {
	for {
		w.HangUp()
		if w.failing > 0 { // others that lost their connection at the same time come back at other times
			time.Sleep(retryPause/2 + rand.N(retryPause))
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
		if class := ClassOf(err); class == Other || class == Constraint || time.Now().After(deadline) {
			w.HangUp()
			w.down = true
			return err
		}
	}
}

func (w *Writer) dial(deadline time.Time) (err error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if w.conn, err = w.db.Conn(ctx); err != nil {
		w.conn = nil
		return err
	}
	return w.conn.Raw(func(driver any) error {
		w.native = driver.(*stdlib.Conn).Conn()
		limitSilence(w.native, answerTimeout)
		return nil
	})
}

// renew takes the old row away and makes a new one, in one transaction.
func (w *Writer) renew(deadline time.Time) error {
	var r receipt
	b := &pgx.Batch{}
	b.Queue("SET lock_timeout = 4000") // a backend that waits for a lock does not notice that nobody waits for it any more
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
	b.Queue(`INSERT INTO writer (started_at) VALUES ($1) RETURNING id`, chain.FormatTime(time.Now())).QueryRow(func(made pgx.Row) error { return made.Scan(&row) })
	b.Queue(`SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')`) // what is acknowledged is durable
	// Those of servers that are gone go; one that is not makes itself a new one.
	b.Queue(`DELETE FROM writer WHERE id IN (SELECT id FROM writer WHERE touched < now() - interval '7 days' FOR UPDATE SKIP LOCKED)`)
	if err := w.send(b, deadline); err != nil {
		return err
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

// Close ends the writer and takes its row away.
func (w *Writer) Close() error {
	if w.conn == nil || w.native.IsClosed() {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(`DELETE FROM writer WHERE id = $1`, w.row)
	err := w.send(b, time.Now().Add(answerTimeout))
	w.HangUp()
	return err
}

// send carries out a batch in one round trip, under a context that nobody ends: to end it is to send a cancel, after which a commit that waits for the standby is
// called a success. A server that does not answer in time loses the connection.
func (w *Writer) send(b *pgx.Batch, deadline time.Time) error {
	wire := w.native.PgConn().Conn()
	stuck := time.AfterFunc(min(time.Until(deadline), answerTimeout), func() { _ = wire.Close() })
	defer stuck.Stop()
	return w.native.SendBatch(context.Background(), b).Close()
}

// Begin opens a transaction in which rows are changed. All servers take turns at that, so that what one reads before it writes still holds.
func (w *Writer) Begin() error {
	b := &pgx.Batch{}
	w.begin(b, true)
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		return w.failed(err)
	}
	return nil
}

// begin queues the beginning of a transaction.
func (w *Writer) begin(b *pgx.Batch, changes bool) {
	b.Queue("BEGIN")
	b.Queue(`SELECT FROM writer WHERE id = $1 FOR UPDATE`, w.row).Query(func(mine pgx.Rows) error {
		if !mine.Next() && mine.Err() == nil {
			return errFenced
		}
		return mine.Err()
	})
	if changes {
		b.Queue(`SELECT pg_advisory_xact_lock($1)`, int64(changesLock))
	}
	w.open = true
}

// Open says whether a transaction was begun.
func (w *Writer) Open() bool { return w.open }

// Rollback ends a transaction that was begun.
func (w *Writer) Rollback() {
	if !w.open || w.conn == nil {
		return
	}
	b := &pgx.Batch{}
	b.Queue("ROLLBACK")
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		w.HangUp()
	}
	w.open = false
}

// free ends the transactions of servers that were halted, or whose machine is gone, in the middle of a message: PostgreSQL waits for the rest without a timeout. Those
// that are so between two messages end by idle_in_transaction_session_timeout.
func (w *Writer) free() {
	if w.conn == nil || w.native.IsClosed() {
		return
	}
	b := &pgx.Batch{}
	b.Queue(`SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a WHERE datname = current_database() AND usename = current_user
		AND state = 'active' AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '3 seconds'
		AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.relation IN ('head'::regclass, 'writer'::regclass))`)
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		w.HangUp()
	}
}

// failed ends what an error has left open, after which nothing was written, and says whether all is to be done again.
func (w *Writer) failed(err error) error {
	class := ClassOf(err)
	gone := class == Lost || class == ReadOnly || errors.Is(err, errFenced) || w.native.IsClosed()
	again := gone || class == Again || errors.Is(err, chain.ErrAgain) || errors.Is(err, errNotOne)
	if class == Duplicate && !w.suspicious { // a row stands beyond a head: to read the heads again is to find whose, and to spare the other chains
		w.suspicious, again = true, true
	}
	if w.failing++; gone {
		w.HangUp()
	} else {
		w.Rollback()
		if isLockTimeout(err) {
			w.free()
		}
	}
	if again && !errors.Is(err, chain.ErrAgain) {
		err = fmt.Errorf("%w: %w", chain.ErrAgain, err)
	}
	return err
}

// Commit writes extensions and makes everything durable. Stale are the chains whose heads have moved, of which nothing was written; whole says that there may be none:
// then all is to be done again. Errors wrap chain.ErrAgain or chain.ErrUnknown, or say that nothing was written.
func (w *Writer) Commit(extensions []chain.Extension, keysExpire time.Time, whole bool) (stale []int64, err error) {
	r := &rows{}
	for i := range extensions {
		r.add(&extensions[i], w.known[extensions[i].Chain].epoch)
	}
	w.seq++
	b := &pgx.Batch{}
	var done receipt
	switch {
	case len(extensions) > 0:
		r.queue(b, w.row, w.seq, keysExpire, w.open && !whole).QueryRow(func(row pgx.Row) error {
			err := row.Scan(&done.known, &done.moved)
			if err == nil && !done.known {
				err = errFenced
			}
			return err
		})
	case w.open:
		b.Queue(`UPDATE writer SET seq = $2, moved = '{}', touched = now() WHERE id = $1`, w.row, w.seq)
	default:
		return nil, nil
	}
	if whole && len(extensions) > 0 { // to be looked at before it is committed
		if err := w.send(b, w.deadline(answerTimeout)); err != nil {
			return nil, w.failed(err)
		}
		if stale := r.stale(done.moved); len(stale) > 0 {
			return nil, w.failed(fmt.Errorf("%w: others have extended chains %d", chain.ErrAgain, stale))
		}
		b = &pgx.Batch{}
	}
	if err := w.commit(b, w.open, w.deadline(answerTimeout)); err != nil {
		return w.settle(r, err)
	}
	w.failing, w.open, w.suspicious = 0, false, false
	return w.committed(r, done.moved), nil
}

// commit sends what is left of a transaction, with its COMMIT where it was begun. A warning says that the wait for a standby was cancelled: then nothing is certain.
func (w *Writer) commit(b *pgx.Batch, begun bool, deadline time.Time) error {
	if begun {
		b.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
			if tag.String() != "COMMIT" {
				return errNotOne
			}
			return nil
		})
	}
	before := w.notes.Load()
	err := w.send(b, deadline)
	if err == nil && w.notes.Load() != before {
		err = errWaitCancelled
	}
	return err
}

var errWaitCancelled = fmt.Errorf("postgres: the wait for a standby may have been cancelled: %w", net.ErrClosed)

// settle finds out what became of a commit that has failed.
func (w *Writer) settle(r *rows, err error) (stale []int64, _ error) {
	if rolledBack(err) {
		return nil, w.failed(err)
	}
	tried := w.seq
	if unreached := w.connect(w.deadline(reachTimeout)); unreached != nil || !w.ended.known {
		return nil, fmt.Errorf("%w: %w", chain.ErrUnknown, errors.Join(err, unreached))
	}
	if w.ended.seq == tried {
		return w.committed(r, w.ended.moved), nil
	}
	return nil, fmt.Errorf("%w: %w", chain.ErrAgain, err)
}
