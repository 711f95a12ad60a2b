// Package feed follows what was committed to a log, from a record on, for those who must miss
// nothing: over a break of their connection, or a restart of the service.
//
// A [Cursor] stands before a record of a chain, and reads from disk. So what it has to hand on is
// never held in memory for it, nobody who appends waits for it, and one that is slow falls behind
// and nothing else. A [Keeper] makes durable how far its users have come.
package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"attestd/chain"
)

// readAtOnce is how many records one read gives at most: a long read would stop WAL checkpoints.
const readAtOnce = 128

// ErrBeyond says that a cursor stands beyond the end of its chain, which has been longer once, or
// never was so long.
var ErrBeyond = errors.New("feed: the chain has fewer records")

// Reader reads chains from disk; chain.Reader has more.
type Reader interface {
	Tip(ctx context.Context, chain int64) (head chain.Head, next int64, err error)
	Records(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
}

// Feed wakes cursors when their chains have grown.
type Feed struct {
	reader Reader

	mu sync.Mutex
	// closed when a chain grows; of those alone that somebody waits for
	grown map[int64]chan struct{}
}

// New returns the feed of the chains of r.
func New(r Reader) *Feed { return &Feed{reader: r, grown: make(map[int64]chan struct{})} }

// Grown says that a chain has grown: the log calls it after each commit. It never waits.
func (f *Feed) Grown(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if grown, awaited := f.grown[number]; awaited {
		close(grown)
		delete(f.grown, number)
	}
}

// next is closed when a chain grows the next time.
func (f *Feed) next(number int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.grown[number] == nil {
		f.grown[number] = make(chan struct{})
	}
	return f.grown[number]
}

// Follow returns a cursor that stands before record from of a chain.
func (f *Feed) Follow(number, from int64) *Cursor { return &Cursor{f, number, from} }

// Cursor stands before a record of a chain. One goroutine uses it.
type Cursor struct {
	feed  *Feed
	chain int64
	next  int64
}

// Next is the index of the record that is read next.
func (c *Cursor) Next() int64 { return c.next }

// Wait returns when there is a record to read.
func (c *Cursor) Wait(ctx context.Context) error {
	for {
		// before the look, so that no growth is missed between the two
		grown := c.feed.next(c.chain)
		more, err := c.left(ctx)
		if err != nil || more > 0 {
			return err
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// left is how many records there are to read. ErrBeyond.
func (c *Cursor) left(ctx context.Context) (int64, error) {
	head, _, err := c.feed.reader.Tip(ctx, c.chain)
	if err != nil {
		return 0, err
	}
	if c.next > head.Length {
		return 0, fmt.Errorf("%w: %d, and the cursor stands before %d", ErrBeyond, head.Length, c.next)
	}
	return head.Length - c.next, nil
}

// Read hands the next records to take, as long as that asks for more, and stands behind them then.
// It does not wait: none means that all have been read. A record and its slices are only valid
// during the call of take, which should be short. Records that are missing on disk are left out:
// whether the chain is whole is said by its verification. After an error the cursor stands where it
// stood. ErrBeyond.
func (c *Cursor) Read(ctx context.Context, take func(r *chain.Record) (more bool)) error {
	left, err := c.left(ctx)
	if err != nil || left == 0 {
		return err
	}
	to := c.next + min(left, readAtOnce)
	err = c.feed.reader.Records(ctx, c.chain, c.next, to, func(r *chain.Record) error {
		if !take(r) {
			to = r.Index + 1
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	c.next = to
	return nil
}

var errEnough = errors.New("feed: enough was read")
