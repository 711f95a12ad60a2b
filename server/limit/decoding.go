package limit

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// turnWait is how long a body waits for its turn to be decoded.
const turnWait = 20 * time.Second

// Decoding charges a Pool of bodies for the memory that decoding needs beyond their bytes. Bodies
// for which the Pool has no room are not refused but decoded in turns, one at a time with a
// credential and one without. So all bodies together use the memory of the Pool and of two bodies,
// and an accepted body is not lost because of others.
type Decoding struct {
	pool             *Pool
	known, anonymous *semaphore.Weighted
}

// NewDecoding returns a Decoding that charges pool.
func NewDecoding(pool *Pool) *Decoding {
	return &Decoding{pool, semaphore.NewWeighted(1), semaphore.NewWeighted(1)}
}

// Acquire charges n bytes to h, from the pool or by a turn, and returns a function to release them,
// which MUST be called once. It waits for a turn until ctx is done, or returns ErrFull after
// turnWait.
func (d *Decoding) Acquire(ctx context.Context, n int64, h Holder) (release func(), err error) {
	if d.pool.acquire(n, h) == nil {
		return func() { d.pool.Release(n, h) }, nil
	}
	turn := d.anonymous
	if h.Known {
		turn = d.known
	}
	waiting, stop := context.WithTimeoutCause(ctx, turnWait, ErrFull)
	defer stop()
	if turn.Acquire(waiting, 1) != nil {
		return nil, context.Cause(waiting)
	}
	return func() { turn.Release(1) }, nil
}
