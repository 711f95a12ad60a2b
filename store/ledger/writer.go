package ledger

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/store/atrest"
	"attestd/store/db"
)

// obeyedLimits returns what is obeyed of the limits of a chain's company, whose rows say has. Rows
// that the open transaction has changed have no record yet, and count.
func (w *writer) obeyedLimits(c *db.Conn, number int64, has Limits) (Limits, error) {
	company, _ := db.LogOf(number)
	if company == db.Installation || slices.Contains(w.rekeyed, number) || w.obeyed == nil {
		return has, nil
	}
	return w.obeyed(c, company, has)
}

// writer is the common part of both implementations of chain.Storage. It is owned by the goroutine
// of Run while that runs.
type writer struct {
	lastUsed *LastUsed
	secrets  atrest.Secrets
	logger   *slog.Logger

	conn    *db.Conn // nil after the connection was closed
	keys    keySweep
	rekeyed []int64 // chains whose key or limit the open transaction has changed
	quotas  Quotas
	wanted  *atomic.Pointer[Quotas] // becomes quotas with the next transaction; nil before Run
	// quotas have changed, and limits of chains that the log remembers have not
	relimited bool
	used      used
	clock     db.Clock
	keyClock  *db.KeyClock
	doubt     *NameDoubt
	obeyed    Obeyed
	// of new idempotency keys
	keyLifetime time.Duration

	summaries *search.Builder // summaries of the chains that are being extended
	gaps      *Gaps           // chains that summaries has left out

	// the next transaction is from Urgently
	urgent bool
	// why writes have stopped; any goroutine may set it, see StopWrites
	stopped atomic.Pointer[error]
}

func newWriter(x atrest.Secrets, u *LastUsed, d *NameDoubt) *writer {
	return &writer{secrets: x, lastUsed: u, logger: slog.New(slog.DiscardHandler), summaries: search.NewBuilder(),
		gaps: newGaps(), keyClock: db.NewKeyClock(), doubt: d}
}

// summarize returns the summaries that an extension completes.
func (w *writer) summarize(e *chain.Extension) []search.Ready {
	ready, leftOut := w.summaries.Add(e.Chain, e.Records)
	if leftOut {
		w.gaps.note(e.Chain)
	}
	return ready
}

// storage is the destination of a Store's writes: a file, or a database server.
type storage interface {
	chain.Storage
	changing() (*db.Conn, error) // the connection, inside the transaction of the change
	check() error                // nil while the opened database is in its place
	// called inside a transaction: nil if a commit will probably succeed
	probe() error
	close() error
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
