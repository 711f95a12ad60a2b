package limit

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// turnWait is how long a body waits for its turn to be decoded.
const turnWait = 20 * time.Second

// Decoding charges a Pool of bodies with what they take beside their bytes while they are decoded
// and what is made of them. What the Pool has no room for is not refused but decoded in turns, one
// body at a time of those with a credential and one of those without. So the memory of all bodies
// is that of the Pool and of two bodies, and a body that was taken in is not lost to others'.
type Decoding struct {
	pool             *Pool
	known, strangers *semaphore.Weighted
}

// NewDecoding returns what charges pool.
func NewDecoding(pool *Pool) *Decoding {
	return &Decoding{pool, semaphore.NewWeighted(1), semaphore.NewWeighted(1)}
}

// Take gives n bytes to h, of the pool or by a turn, and returns what gives them back, which is to
// be called once. It waits for a turn until ctx is done, or returns ErrFull after a while.
func (d *Decoding) Take(ctx context.Context, n int64, h Holder) (release func(), err error) {
	if d.pool.take(n, h) == nil {
		return func() { d.pool.Give(n, h) }, nil
	}
	turn := d.strangers
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
