// Package ledger appends to the logs of a database, and reads them.
//
// It implements the storage of a chain.Log for both engines. All writes go through the queue of
// that log, which commits those of many callers together: rows, and the records about them, in one
// transaction. The ledger knows companies only by their numbers. It gets their limits through
// Obeyed, and what is known elsewhere of their logs through Guard; package store implements both.
// It imports package db, and not store. A newcomer begins with Ledger.Run and chain.Storage.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// View reads the logs of a database. It implements chain.Reader.
type View struct{ db.Source }

// Ledger appends to the logs of a database, while Run runs, and commits rows with the records that
// are about them.
type Ledger struct {
	*db.DB

	lock      *sqlite.Lock // nil in a read-only ledger, as are writer, storage and log
	writer    *writer
	storage   storage
	log       *chain.Log
	guard     Guard // nil for none
	lastUsed  LastUsed
	doubt     *NameDoubt
	suspected chan error // what is to be examined; see guardFile
	closed    bool
	closing   context.Context
	close     context.CancelFunc // ends closing, when Run or the ledger is to end
	refused   refusedCount
	quotas    atomic.Pointer[Quotas] // of RunOptions; nil before Run
	// of RunOptions, for what any goroutine finds; nil before Run
	journal atomic.Pointer[slog.Logger]
}

// Guard compares what is appended with what is known of the logs elsewhere, as in a head file. What
// it finds stops the writes.
type Guard interface {
	// starts the guard's background work, until Close
	Start(log *slog.Logger)
	Close() error
	// called after each commit, before it is answered
	Committed(batch []chain.Extension, external bool)
	// called when another connection writes, which may lead to another copy of the database
	Reconnected()
	// returns what checks the heads of chains that are about to be extended
	Check(chains []int64, log *slog.Logger) func(number int64, head *chain.Head) error
	// hears of other servers too
	Watch(w *postgres.Watch)
}

// New returns a ledger that only reads.
func New(d *db.DB) *Ledger {
	l := &Ledger{DB: d, doubt: NewNameDoubt(), suspected: make(chan error, 1)}
	l.closing, l.close = context.WithCancel(context.Background())
	return l
}

// Lock makes the ledger release a lock when it is closed.
func (l *Ledger) Lock(of *sqlite.Lock) { l.lock = of }

// OpenFile prepares the ledger for writing a file.
func (l *Ledger) OpenFile(ctx context.Context, obeyed Obeyed) error {
	pool, err := sqlite.Open(l.Path(), sqlite.ModeWriter)
	if err != nil {
		return err
	}
	w, err := newFileWriter(ctx, pool, l.Path(), l.Secrets(), &l.lastUsed, l.doubt, l.Checked, l.damaged)
	if err != nil {
		pool.Close()
		return fmt.Errorf("%s: %w", l.Path(), err)
	}
	w.obeyed = obeyed
	l.writer, l.storage, l.log = w.writer, w, chain.NewLog(w)
	l.Serve(w.keyClock, l.damaged)
	return nil
}

// OpenPostgres prepares the ledger for writing a database of PostgreSQL, which other servers may
// write too. notices counts those of its connections; see db.DialPostgres.
func (l *Ledger) OpenPostgres(notices *atomic.Int64, obeyed Obeyed) error {
	to := postgres.NewWriter(l.closing, l.Pool(), notices)
	if _, err := to.Conn(); errors.Is(err, postgres.ErrRefused) {
		return l.NamedError(err)
	}
	w := newPGWriter(to, postgres.NewWatch(l.Pool()), l.Secrets(), &l.lastUsed, l.doubt)
	if err := w.connect(); err != nil {
		return err
	}
	w.obeyed = obeyed
	l.Serve(w.keyClock, nil)
	l.writer, l.storage, l.log = w.writer, w, chain.NewLog(w)
	return nil
}

// SetGuard makes g compare what is appended from now on, before Run.
func (l *Ledger) SetGuard(g Guard) {
	l.guard = g
	if w, is := l.storage.(*pgWriter); is {
		w.guard = g
	}
}

// IsReadOnly reports whether the ledger cannot write.
func (l *Ledger) IsReadOnly() bool { return l.writer == nil }

// WriterConn is the connection that writes, for what is written before Run.
func (l *Ledger) WriterConn() *db.Conn { return l.writer.conn }

// Logger receives findings of background work, which no caller waits for. Run sets it; before, it
// is nil.
func (l *Ledger) Logger() *slog.Logger { return l.journal.Load() }

// WriterLogger is Logger for what the writing goroutine does. It is never nil.
func (l *Ledger) WriterLogger() *slog.Logger { return l.writer.logger }

// Rekeyed marks a transaction as one that changes the key or the limits of a chain.
func (l *Ledger) Rekeyed(chain int64) { l.writer.rekeyed = append(l.writer.rekeyed, chain) }

// Stopped returns why writes have stopped, or nil.
func (l *Ledger) Stopped() error {
	if reason := l.writer.stopped.Load(); reason != nil {
		return *reason
	}
	return nil
}

// Resume allows the writes that StopWrites has stopped.
func (l *Ledger) Resume() { l.writer.stopped.Store(nil) }

// Waiting is the number of calls that wait for a transaction, and ClockLeapt says whether the wall
// clock leapt ahead while this process was running, and is not trusted yet.
func (l *Ledger) Waiting() (calls int, clockLeapt bool) {
	if l.writer == nil {
		return 0, false
	}
	return l.log.Waiting(), l.writer.keyClock.HasLeapt()
}

// WriterQuotas are those of the open transaction.
func (l *Ledger) WriterQuotas() Quotas { return l.writer.quotas }

// SetQuotas replaces the quotas of RunOptions, from the next transaction on.
func (l *Ledger) SetQuotas(q Quotas) { l.quotas.Store(&q) }

// QuotaStatus may be called at any time.
func (l *Ledger) QuotaStatus() QuotaStatus {
	status := QuotaStatus{RefusedByQuota: l.refused.quota.Load(), RefusedSuspended: l.refused.suspended.Load()}
	if q := l.quotas.Load(); q != nil {
		status.Quotas = *q
		status.Records, status.Bytes = l.writer.used.records.Load(), l.writer.used.bytes.Load()
	}
	return status
}

// Refused counts an error of a write that a quota or a suspension has refused, and returns it.
func (l *Ledger) Refused(err error) error { return l.refused.count(err) }

// LastUsed has the uses of credentials that are not written yet.
func (l *Ledger) LastUsed() *LastUsed { return &l.lastUsed }

// Names knows of which chains the names of statements are complete.
func (l *Ledger) Names() *NameDoubt { return l.doubt }

// Gaps has the chains that may lack summaries.
func (l *Ledger) Gaps() *Gaps { return l.writer.gaps }
