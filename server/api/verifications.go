package api

import (
	"context"
	"errors"
	"sync"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/store"
)

// Verifications lets requests share the verifications of chains. For each company one runs at a
// time, however many requests wait for it, so that asking more often does not give a company more
// of the Verifier's turns.
//
// A result is never older than its request: a request joins a verification that has not begun to
// read, and if one is running, the next one. The waiting request that gets the company's turn runs
// the next verification for all of them, without a separate goroutine. It is canceled only if no
// request waits for it any more.
//
//	A  turn: verify ──────────────→ answer A
//	B      wait ··················  turn: verify ───→ answer B and C
//	C             wait ·································· answered
type Verifications struct {
	run      func(ctx context.Context, l store.Log) (chain.Verdict, error)
	Requests *limit.Pool // waiting requests

	mu        sync.Mutex
	companies map[int64]*verifyQueue // by number: those with waiting requests
}

// verifyQueue has the requests of one company. verifications.mu guards all fields but turn.
type verifyQueue struct {
	turn     chan struct{}                   // capacity 1: its holder runs verifications
	next     map[store.LogName]*verification // verifications that have not begun
	requests int
}

// verification is one run over a log, with the requests that wait for it.
type verification struct {
	log     store.Log
	waiting int // guarded by verifications.mu
	ctx     context.Context
	cancel  context.CancelFunc // called when no request waits any more

	done    chan struct{} // closed when verdict and err are set
	verdict chain.Verdict
	err     error
}

var errVerifyPanicked = errors.New("verification panicked")

func NewVerifications(requests limit.Size, run func(context.Context, store.Log) (chain.Verdict, error)) *Verifications {
	return &Verifications{run: run, Requests: limit.NewPool(requests), companies: make(map[int64]*verifyQueue)}
}

// verify returns the verdict on a log of a company as of the call, or 503 if too many requests are
// waiting.
func (v *Verifications) verify(ctx context.Context, c *store.Company, l store.Log) (chain.Verdict, error) {
	q, own, err := v.enter(ctx, c.Chain, l)
	if err != nil {
		return chain.Verdict{}, err
	}
	defer v.leave(c.Chain, q)
	// A request that runs a verification for others continues when its own client leaves.
	gone := context.AfterFunc(ctx, func() { v.abandon(q, own) })
	defer gone()

	select {
	case <-own.done:
		return own.verdict, own.err
	case <-ctx.Done():
		return chain.Verdict{}, ctx.Err()
	case q.turn <- struct{}{}:
	}
	defer func() { <-q.turn }()
	select {
	case <-own.done: // by the request that had the turn before
	default:
		v.begin(q, own)
		own.execute(func(ctx context.Context) (chain.Verdict, error) { return v.run(ctx, l) })
	}
	return own.verdict, own.err
}

// execute answers all waiting requests, even if run panics, which propagates to the caller.
func (m *verification) execute(run func(context.Context) (chain.Verdict, error)) {
	defer m.cancel()
	defer close(m.done)
	m.err = errVerifyPanicked
	m.verdict, m.err = run(m.ctx)
}

// enter adds a request, and returns the next verification of the log.
func (v *Verifications) enter(ctx context.Context, number int64, l store.Log) (*verifyQueue, *verification, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.companies[number]
	if err := v.Requests.Acquire(1, limit.Holder{Company: number, Known: q == nil}); err != nil {
		return nil, nil, httpapi.Unavailable("NOT_DONE", "too many verifications are waiting; try again later",
			err).With("Retry-After", "5")
	}
	if q == nil {
		q = &verifyQueue{turn: make(chan struct{}, 1), next: make(map[store.LogName]*verification)}
		v.companies[number] = q
	}
	next := q.next[l.Name]
	if next == nil {
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		next = &verification{log: l, ctx: run, cancel: cancel, done: make(chan struct{})}
		q.next[l.Name] = next
	}
	next.waiting++
	q.requests++
	return q, next, nil
}

func (v *Verifications) leave(number int64, q *verifyQueue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Requests.Release(1, limit.Holder{Company: number})
	if q.requests--; q.requests == 0 {
		delete(v.companies, number)
	}
}

// begin makes later requests start another verification.
func (v *Verifications) begin(q *verifyQueue, m *verification) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q.drop(m)
}

// abandon removes a waiting request.
func (v *Verifications) abandon(q *verifyQueue, m *verification) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.waiting--; m.waiting > 0 {
		return
	}
	m.cancel()
	q.drop(m)
}

// drop makes later requests start another verification, if they do not yet.
func (q *verifyQueue) drop(m *verification) {
	if q.next[m.log.Name] == m {
		delete(q.next, m.log.Name)
	}
}
