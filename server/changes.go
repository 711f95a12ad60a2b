package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

const lookAgain = 250 * time.Millisecond // at what could not be looked at

// changes are the companies of which other servers have changed something. What this one holds open
// for them, streams and webhooks, is looked at again: its credential or its webhook may be gone.
type changes struct {
	wake chan struct{} // capacity 1: there may be something in companies

	mu        sync.Mutex
	companies map[int64]bool
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1), companies: make(map[int64]bool)}
}

// note never waits: the store calls it when it learns of a change.
func (c *changes) note(company int64) {
	c.mu.Lock()
	c.companies[company] = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *changes) take() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	companies := slices.Collect(maps.Keys(c.companies))
	clear(c.companies)
	return companies
}

// watchRemoteChanges looks at what has changed until ctx is done.
func (s *Server) watchRemoteChanges(ctx context.Context) error {
	for {
		select {
		case <-s.changes.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, company := range s.changes.take() {
			if err := s.hub.Recheck(company); err != nil {
				s.changes.note(company)
				_ = sleep(ctx, lookAgain) // the loop sees that ctx is done
			}
			s.deliverer.recheck(company)
		}
	}
}
