package server

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/wake"
)

const lookAgain = 250 * time.Millisecond // after a failed check

// changes holds the companies that other servers have changed. This server then checks their
// streams and webhooks again, because a credential or a webhook may have been deleted.
type changes struct {
	wake wake.Signal // set when companies may not be empty

	mu        sync.Mutex
	companies map[int64]bool
}

func newChanges() *changes {
	return &changes{wake: wake.NewSignal(), companies: make(map[int64]bool)}
}

// note adds a company. It never blocks, because the store calls it when it learns of a change.
func (c *changes) note(company int64) {
	c.mu.Lock()
	c.companies[company] = true
	c.mu.Unlock()
	c.wake.Set()
}

func (c *changes) take() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	companies := slices.Collect(maps.Keys(c.companies))
	clear(c.companies)
	return companies
}

// watchRemoteChanges checks changed companies until ctx is done.
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
				_ = sleep.For(ctx, lookAgain) // the loop handles ctx
			}
			s.deliverer.recheck(company)
		}
	}
}

// companyChanged returns when streams and webhooks follow what an operator has changed of a
// company.
func (s *Server) companyChanged(company int64) {
	_ = s.hub.Recheck(company) // those that could not be looked up are again, in time
	s.deliverer.recheck(company)
	s.deliverer.recheck(everyCompany)
	s.companies.again()
}
