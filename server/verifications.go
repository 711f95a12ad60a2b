package server

import (
	"context"
	"errors"
	"sync"

	"attestd/chain"
	"attestd/server/limit"
	"attestd/store"
)

// verifications lets requests share the verifications of chains. Of each log one is under way at a time, whatever number of requests
// wait for it, so that no company gets more of the Verifier's turns by asking more often.
//
// An answer is never older than its question: a request takes part in a verification that has not begun to read, and where one is under way
// in the next one. Whoever of those that wait gets the log's turn carries the next one out, for all of them; there is no goroutine
// for it. It ends early only when nobody waits for it any more.
//
//	A  turn: verify ──────────────→ answer A
//	B      wait ··················  turn: verify ───→ answer B and C
//	C             wait ·································· answered
type verifications struct {
	run      func(ctx context.Context, l store.Log) (chain.Verdict, error)
	requests *limit.Pool // that wait

	mu   sync.Mutex
	logs map[int64]*verifyQueue // by chain: those with requests that wait
}

// verifyQueue is the requests about one log; verifications.mu guards all but turn.
type verifyQueue struct {
	turn     chan struct{} // capacity 1: whoever has put its token in verifies
	next     *verification // not begun yet; nil when nobody waits for one
	requests int
}

// verification is one run over a chain and those who wait for it.
type verification struct {
	waiting int // guarded by verifications.mu
	ctx     context.Context
	cancel  context.CancelFunc // called when nobody waits any more

	done    chan struct{} // closed when verdict and err stand
	verdict chain.Verdict
	err     error
}

var errVerifyPanicked = errors.New("verification panicked")

func newVerifications(requests limit.Size, run func(context.Context, store.Log) (chain.Verdict, error)) *verifications {
	return &verifications{run: run, requests: limit.NewPool(requests), logs: make(map[int64]*verifyQueue)}
}

// verify returns the verdict about a log of a company as it is after the call. 503 when too many wait already.
func (v *verifications) verify(ctx context.Context, c *store.Company, l store.Log) (chain.Verdict, error) {
	q, mine, err := v.enter(ctx, c.Chain, l.Chain)
	if err != nil {
		return chain.Verdict{}, err
	}
	defer v.leave(c.Chain, l.Chain, q)
	// The request that carries a verification out for others stays when its own client goes.
	gone := context.AfterFunc(ctx, func() { v.giveUp(q, mine) })
	defer gone()

	select {
	case <-mine.done:
		return mine.verdict, mine.err
	case <-ctx.Done():
		return chain.Verdict{}, ctx.Err()
	case q.turn <- struct{}{}:
	}
	defer func() { <-q.turn }()
	select {
	case <-mine.done: // by the one who had the turn before
	default:
		v.begin(q, mine)
		mine.carryOut(func(ctx context.Context) (chain.Verdict, error) { return v.run(ctx, l) })
	}
	return mine.verdict, mine.err
}

// carryOut answers all who wait, also when run panics, which then goes on up to the caller.
func (m *verification) carryOut(run func(context.Context) (chain.Verdict, error)) {
	defer m.cancel()
	defer close(m.done)
	m.err = errVerifyPanicked
	m.verdict, m.err = run(m.ctx)
}

// enter takes a request in, and gives it the log's next verification.
func (v *verifications) enter(ctx context.Context, company, number int64) (*verifyQueue, *verification, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	q := v.logs[number]
	if err := v.requests.Take(1, limit.Holder{Company: company, Known: q == nil}); err != nil {
		return nil, nil, unavailable("NOT_DONE", "too many verifications are waiting; try again later", err).with("Retry-After", "5")
	}
	if q == nil {
		q = &verifyQueue{turn: make(chan struct{}, 1)}
		v.logs[number] = q
	}
	if q.next == nil {
		run, cancel := context.WithCancel(context.WithoutCancel(ctx))
		q.next = &verification{ctx: run, cancel: cancel, done: make(chan struct{})}
	}
	q.next.waiting++
	q.requests++
	return q, q.next, nil
}

func (v *verifications) leave(company, number int64, q *verifyQueue) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests.Give(1, limit.Holder{Company: company})
	if q.requests--; q.requests == 0 {
		delete(v.logs, number)
	}
}

// begin closes a verification to newcomers.
func (v *verifications) begin(q *verifyQueue, m *verification) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q.next == m {
		q.next = nil
	}
}

// giveUp takes away one who waited.
func (v *verifications) giveUp(q *verifyQueue, m *verification) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if m.waiting--; m.waiting > 0 {
		return
	}
	m.cancel()
	if q.next == m {
		q.next = nil
	}
}
