package chain

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"attestd/internal/bounded"
	"attestd/internal/wake"
)

const (
	// changes and records in one transaction, except those of the last change
	maxBatch      = 1024
	maxBatchBytes = 16 << 20 // payload bytes in one transaction, except those of the last change
)

// Log is the single writer of all chains and of the rows that change with them. Append and Write
// add a change to its queue. Run commits all queued changes in one transaction and answers their
// callers. The next batch forms while one syncs, so batches grow with the load, and a lone change
// never waits.
type Log struct {
	storage Storage
	observe func(Transacted) // nil for none; see Observe
	wake    wake.Signal      // set when there may be something to do
	ended   chan struct{}    // closed when Run has returned

	mu      sync.Mutex
	waiting []*waiter // in order of arrival
	ahead   ahead
	running bool // Run was called
	closed  bool // the queue accepts no more waiters
}

// waiter is one call of Append, AppendAll or Write. Run writes records and err, then closes done.
type waiter struct {
	ctx     context.Context           // of its caller, for Transacted alone
	rows    func() ([]Draft, error)   // of Write and WriteAlone
	prepare func(time.Time) time.Time // of WriteAlone
	drafts  []Draft
	sources []source // of the drafts; nil if all become records
	ahead   []sealed // of the drafts; nil if none was sealed ahead
	records []Record
	err     error
	done    chan struct{}
}

func (w *waiter) fail(err error) {
	w.err = err
	close(w.done)
}

// NewLog returns a log whose chains live in s. Nothing is written before Run.
func NewLog(s Storage) *Log {
	return &Log{storage: s, wake: wake.NewSignal(), ended: make(chan struct{})}
}

// Append returns the record once it is durable. After an error nothing was written, unless the
// error wraps ErrUnknown. The error is ctx.Err() if ctx ended while the append was queued,
// ErrUnknown and ctx.Err() if it ended later, and ErrClosed if the log is closed.
func (l *Log) Append(ctx context.Context, d Draft) (Record, error) {
	all, err := l.AppendAll(ctx, []Draft{d})
	if err != nil {
		return Record{}, err
	}
	return all[0].Record, nil
}

// Write commits a change of rows together with the drafts that rows returns, and returns their
// records. Errors are those of Append, and an error of rows, which rolls back only the writes of
// rows.
//
// Run calls rows inside a transaction that has all earlier rows, but not yet the records of its own
// batch. Run may call rows again if another change made the transaction fail, so rows MUST set its
// results and not append to them. When Write returns, rows is not running.
func (l *Log) Write(ctx context.Context, rows func() ([]Draft, error)) ([]Record, error) {
	return l.change(ctx, &waiter{rows: rows, done: make(chan struct{})})
}

// WriteAlone is Write in a transaction of its own. Before the transaction, Run calls prepare with
// the time of the records, and uses the returned time instead.
func (l *Log) WriteAlone(ctx context.Context, prepare func(now time.Time) time.Time, rows func() ([]Draft, error)) ([]Record, error) {
	return l.change(ctx, &waiter{rows: rows, prepare: prepare, done: make(chan struct{})})
}

func (l *Log) change(ctx context.Context, w *waiter) ([]Record, error) {
	_, err := l.enqueue(ctx, w)
	if err == nil {
		err = l.wait(ctx, w)
	}
	return w.records, err
}

// wait waits for the answer of w, or for the end of ctx while it can still be withdrawn.
func (l *Log) wait(ctx context.Context, w *waiter) error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	if l.withdraw(w) {
		return ctx.Err()
	}
	if w.rows == nil { // no function of the caller is running
		return fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
	}
	<-w.done
	return w.err
}

// enqueue puts w into the queue, where Run finds it. placed is that of placeArrived.
func (l *Log) enqueue(ctx context.Context, w *waiter) (placed bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, ErrClosed
	}
	w.ctx = ctx
	l.waiting = append(l.waiting, w)
	l.wake.Set()
	return l.placeArrived(), nil
}

// withdraw removes w from the queue. It reports false if a batch already has it.
func (l *Log) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		if i < l.ahead.placed {
			l.ahead.placed--
		}
	}
	return i >= 0
}

// nextBatch removes and returns waiters in order of arrival, up to the size of one transaction.
func (l *Log) nextBatch() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, changes, size := 0, 0, 0
	for n < len(l.waiting) && changes < maxBatch && size < maxBatchBytes {
		if alone := l.waiting[n].prepare != nil; alone && n > 0 {
			break
		} else if alone {
			n++
			break
		}
		drafts := l.waiting[n].drafts
		for i := range drafts {
			size += len(drafts[i].Payload)
		}
		changes += max(1, len(drafts))
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

// Run owns the storage and all heads until ctx is done or Close was called. Then it answers all
// waiters and returns nil. It MUST be called once.
//
// now is the clock of the records. Run calls publish after each commit, in commit order, before it
// answers the waiters. publish MUST NOT block. external reports that another process has written
// since the last call of publish.
func (l *Log) Run(ctx context.Context, now func() time.Time, publish func(batch []Extension, external bool)) error {
	if !l.begin() {
		return nil
	}
	defer close(l.ended)
	known := heads{bounded.NewMap[int64, signedHead](maxHeads)}
	l.ahead.heads, l.ahead.now = known, now
	w := &writer{log: l, storage: l.storage, now: now, publish: publish, observe: l.observe, heads: known}
	for {
		if ctx.Err() != nil {
			l.refuse()
		}
		ending := l.isClosed() // before the last read of the queue
		if batch := l.nextBatch(); len(batch) > 0 {
			w.write(batch)
			// Answered callers can then append again in the next batch, not the one after it.
			runtime.Gosched()
			continue
		}
		if ending {
			return nil
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
}

// begin reports whether the log is still open when Run starts.
func (l *Log) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = !l.closed
	return l.running
}

// Close ends the log and returns when Run has returned. Run commits the waiting appends first.
// Without Run, they fail with ErrClosed.
func (l *Log) Close() {
	if l.refuse() {
		<-l.ended
		return
	}
	for batch := l.nextBatch(); len(batch) > 0; batch = l.nextBatch() {
		for _, w := range batch {
			w.fail(ErrClosed)
		}
	}
}

// refuse closes the queue and reports whether Run was called.
func (l *Log) refuse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake.Set()
	return l.running
}

func (l *Log) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Transacted describes one transaction of a Log, for measurements.
type Transacted struct {
	Changes int // calls of Append, AppendAll and Write that it has
	Records int // that it has added; 0 if it failed
	Began   time.Time
	Took    time.Duration // from Began until its callers were answered, or it failed
	Synced  time.Duration // of Took: the commit, after which the transaction is durable
	// why the storage did not commit it, or nil; it may be tried again. A transaction that the
	// error of a change ends is not described.
	Err error
	// of the calls in it; their values alone may be used
	Callers []context.Context
}

// Observe has f called after each transaction, by the goroutine of Run, so f MUST NOT block.
// Observe MUST be called before Run.
func (l *Log) Observe(f func(Transacted)) { l.observe = f }

// Waiting returns the number of calls of Append, AppendAll and Write in the queue.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// observation is what is measured of the transaction that runs.
type observation struct {
	to     func(Transacted) // may be nil
	began  time.Time
	synced time.Duration
}

// lost reports a transaction that the storage did not commit, unless err is nil.
func (o observation) lost(batch []*waiter, err error) {
	if err != nil {
		o.report(batch, Transacted{Err: err})
	}
}

// durable reports a transaction that is committed.
func (o observation) durable(batch []*waiter, extensions []Extension) {
	records := 0
	for i := range extensions {
		records += len(extensions[i].Records)
	}
	o.report(batch, Transacted{Records: records})
}

func (o observation) report(batch []*waiter, t Transacted) {
	if o.to == nil {
		return
	}
	t.Changes, t.Began, t.Took, t.Synced = len(batch), o.began, time.Since(o.began), o.synced
	t.Callers = make([]context.Context, len(batch))
	for i, w := range batch {
		t.Callers[i] = w.ctx
	}
	o.to(t)
}
