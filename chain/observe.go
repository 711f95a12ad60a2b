package chain

import (
	"context"
	"time"
)

// Transacted describes one transaction of a Log, for whoever measures it.
type Transacted struct {
	Changes int // calls of Append, AppendAll and Write that it has
	Records int // that it has added; 0 if it failed
	Began   time.Time
	Took    time.Duration // from Began until its callers were answered, or it failed
	Synced  time.Duration // of Took: the commit, at whose end the transaction is durable
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
