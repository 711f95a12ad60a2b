package postgres

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"attestd/chain"
	"attestd/chain/search"
)

// Begin begins a transaction that changes rows. Such transactions of all servers are serialized, so
// that what one reads before it writes still holds.
func (w *Writer) Begin() error {
	b := &pgx.Batch{}
	w.begin(b, true)
	if err := w.send(b, w.deadline(answerTimeout)); err != nil {
		return w.failed(err)
	}
	return nil
}

// begin queues the start of a transaction.
func (w *Writer) begin(b *pgx.Batch, changes bool) {
	b.Queue("BEGIN")
	b.Queue(`SELECT FROM writer WHERE id = $1 AND `+mine+` FOR UPDATE`, w.row).Query(func(mine pgx.Rows) error {
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

// Open reports whether a transaction is open.
func (w *Writer) Open() bool { return w.open }

// Rollback rolls an open transaction back.
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

// free terminates the transactions of servers that stopped, or whose machine failed, in the middle
// of a message, because PostgreSQL waits for the rest without a timeout. Between two messages,
// idle_in_transaction_session_timeout ends them.
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

// failed cleans up after an error that prevented the write. It wraps the error in
// chain.ErrTransactionLost if the batch should be retried.
func (w *Writer) failed(err error) error {
	class := ClassOf(err)
	gone := class == Lost || class == ReadOnly || errors.Is(err, errFenced) || w.native.IsClosed()
	again := gone || class == Again || errors.Is(err, chain.ErrTransactionLost) || errors.Is(err, errNotOne)
	// A row exists beyond a head. Reading the heads again finds out whose it is, and spares the
	// other chains.
	if class == Duplicate && !w.suspicious {
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
	if again && !errors.Is(err, chain.ErrTransactionLost) {
		err = fmt.Errorf("%w: %w", chain.ErrTransactionLost, err)
	}
	return err
}

// Commit writes extensions with the summaries that they complete, and commits. stale are the chains
// whose heads have moved, of which nothing was written. With whole there may be none, otherwise
// everything is retried. An error wraps chain.ErrTransactionLost or chain.ErrUnknown, or means that
// nothing was written.
func (w *Writer) Commit(
	extensions []chain.Extension, summaries []search.Ready, keysExpire time.Time, whole bool,
) (stale []int64, err error) {
	r := &rows{}
	for i := range extensions {
		r.add(&extensions[i], keysExpire)
	}
	r.addSummaries(summaries)
	w.seq++
	b := &pgx.Batch{}
	var done receipt
	switch {
	case len(extensions) > 0:
		r.queue(b, w.row, w.seq, w.open && !whole).QueryRow(func(row pgx.Row) error {
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
	if whole && len(extensions) > 0 { // check the result before the commit
		if err := w.send(b, w.deadline(answerTimeout)); err != nil {
			return nil, w.failed(err)
		}
		if stale := r.stale(done.moved); len(stale) > 0 {
			return nil, w.failed(fmt.Errorf("%w: others have extended chains %d", chain.ErrTransactionLost, stale))
		}
		b = &pgx.Batch{}
	}
	if err := w.commit(b, w.open, w.deadline(answerTimeout)); err != nil {
		return w.resolveOutcome(r, err)
	}
	w.failing, w.open, w.suspicious = 0, false, false
	return w.committed(r, done.moved), nil
}

// commit sends the rest of a transaction, with COMMIT if it was begun. A warning may mean that the
// wait for a standby was canceled; then the outcome is unknown.
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

// resolveOutcome finds out the outcome of a failed commit.
func (w *Writer) resolveOutcome(r *rows, err error) (stale []int64, _ error) {
	if rolledBack(err) {
		return nil, w.failed(err)
	}
	tried := w.seq
	if unreached := w.reach(w.deadline(reachTimeout)); unreached != nil || !w.ended.known {
		return nil, fmt.Errorf("%w: %w", chain.ErrUnknown, errors.Join(err, unreached))
	}
	if w.ended.seq == tried {
		return w.committed(r, w.ended.moved), nil
	}
	return nil, fmt.Errorf("%w: %w", chain.ErrTransactionLost, err)
}
