// Package feed follows a log from a given record on, for consumers that must not miss a record,
// even after a broken connection or a restart of the service.
//
// A [Cursor] is a position in a chain, and reads records from disk. So undelivered records use no
// memory, appends wait for no consumer, and a slow consumer delays only itself. A [Keeper] stores
// the positions of consumers.
package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"attestd/chain"
)

// readAtOnce is the maximum number of records per read, because a long read would block WAL
// checkpoints.
const readAtOnce = 128

// ErrBeyond means that a cursor is beyond the end of its chain. The chain was longer once, or the
// position is wrong.
var ErrBeyond = errors.New("feed: the chain has fewer records")

// Reader reads chains from disk. It is a subset of chain.Reader.
type Reader interface {
	Tip(ctx context.Context, chain int64) (head chain.Head, next int64, err error)
	Records(ctx context.Context, chain, from, to int64, yield func(*chain.Record) error) error
}

// Feed wakes cursors when their chains grow.
type Feed struct {
	reader Reader

	mu sync.Mutex
	// closed when a chain grows; only for chains with a waiting cursor
	grown map[int64]chan struct{}
}

// New returns the feed of the chains of r.
func New(r Reader) *Feed { return &Feed{reader: r, grown: make(map[int64]chan struct{})} }

// Grown announces that a chain has grown. The log calls it after each commit. It never blocks.
func (f *Feed) Grown(number int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if grown, awaited := f.grown[number]; awaited {
		close(grown)
		delete(f.grown, number)
	}
}

// next returns a channel that is closed when a chain grows next.
func (f *Feed) next(number int64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.grown[number] == nil {
		f.grown[number] = make(chan struct{})
	}
	return f.grown[number]
}

// Follow returns a cursor before the record with index from of a chain.
func (f *Feed) Follow(number, from int64) *Cursor { return &Cursor{f, number, from} }

// Cursor is a position before a record of a chain. It MUST be used by one goroutine at a time.
type Cursor struct {
	feed  *Feed
	chain int64
	next  int64
}

// Chain returns the number of the chain.
func (c *Cursor) Chain() int64 { return c.chain }

// Next returns the index of the next record to read.
func (c *Cursor) Next() int64 { return c.next }

// Either waits until a record of one of two chains can be read, and returns the cursor of that
// chain, a if both have one. After an error it returns the cursor that could not be checked.
func Either(ctx context.Context, a, b *Cursor) (*Cursor, error) {
	for {
		var grown [2]<-chan struct{}
		for i, c := range [...]*Cursor{a, b} {
			// get the channel before the check, so that no growth is missed in between
			grown[i] = c.feed.next(c.chain)
			if more, err := c.left(ctx); err != nil || more > 0 {
				return c, err
			}
		}
		select {
		case <-grown[0]:
		case <-grown[1]:
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
}

// left returns the number of records that can be read, or ErrBeyond.
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

// Read calls take with the next records while it returns true, and advances the cursor. It does not
// wait: no call means that all records were read. A record and its slices are valid only during the
// call of take, which should be short. Read skips records that are missing on disk, which
// verification reports. After an error the cursor is unchanged. Read returns ErrBeyond.
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
