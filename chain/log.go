package chain

import (
	"context"
	"sync"
)

const (
	maxBatch      = 1024     // records in one transaction
	maxBatchBytes = 16 << 20 // payload in one transaction, but for its last record
)

// Log is the single writer of all chains. Append puts a record into a queue; Run takes all that waits, makes it durable in one
// transaction, and answers. While one batch syncs the next one forms, so the batches are as large as the load asks for,
// and a lone record waits for nobody.
type Log struct {
	storage Storage
	publish func(batch []Extension, foreign bool)
	wake    chan struct{} // holds a token when something may wait

	mu      sync.Mutex
	waiting []*waiter // in order of arrival
	closed  bool      // nothing is added to waiting any more
}

// waiter is one call of Append. Run writes record and err, then closes done.
type waiter struct {
	draft  Draft
	record Record
	err    error
	done   chan struct{}
}

func (w *waiter) fail(err error) {
	w.err = err
	close(w.done)
}

// NewLog returns a log whose heads live in s. publish, if not nil, is called by Run after each commit and before the waiters are
// answered, in commit order; it must not block. foreign is what Storage.Extend said, since the last call of publish.
func NewLog(s Storage, publish func(batch []Extension, foreign bool)) *Log {
	if publish == nil {
		publish = func([]Extension, bool) {}
	}
	return &Log{storage: s, publish: publish, wake: make(chan struct{}, 1)}
}

// Append returns the record once it is durable. When ctx ends first the outcome is unknown and ctx.Err() is returned; so it is
// after an error of Storage.Extend other than ErrStale. ErrClosed when Run is ending: nothing was written.
func (l *Log) Append(ctx context.Context, d Draft) (Record, error) {
	if err := ctx.Err(); err != nil {
		return Record{}, err
	}
	w := &waiter{draft: d, done: make(chan struct{})}
	if !l.enqueue(w) {
		return Record{}, ErrClosed
	}
	select {
	case <-w.done:
		return w.record, w.err
	case <-ctx.Done():
		return Record{}, ctx.Err()
	}
}

func (l *Log) enqueue(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waiting = append(l.waiting, w)
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns what waits, in order of arrival, up to the size of one transaction.
func (l *Log) take() []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, size := 0, 0
	for n < len(l.waiting) && n < maxBatch && size < maxBatchBytes {
		size += len(l.waiting[n].draft.Payload)
		n++
	}
	batch := l.waiting[:n:n]
	l.waiting = l.waiting[n:]
	return batch
}

func (l *Log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// Run owns all heads. It returns nil after ctx is done and all that waited is answered; from then on Append gives ErrClosed.
// Call it once. The storage is called with a context that never ends: half a commit helps nobody.
func (l *Log) Run(ctx context.Context) error {
	w := &writer{storage: l.storage, publish: l.publish, heads: make(map[int64]Head)}
	for {
		ending := ctx.Err() != nil
		if ending {
			l.close() // before the last look into the queue
		}
		if batch := l.take(); len(batch) > 0 {
			w.write(context.WithoutCancel(ctx), batch)
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
