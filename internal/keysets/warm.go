package keysets

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"attestd/internal/sleep"
)

const (
	// Warm spreads its first fetches over this time, so that servers that start together do not ask
	// the same issuers in one moment.
	warmWithin = 2 * time.Second
	warmers    = 4 // sets that Warm fetches at once
)

// Named is a source that a company has named.
type Named struct {
	Company int64
	Source
}

// Warm fetches sets that nobody has asked for yet, a few at a time and in their order, and returns
// when each was tried once, or when ctx is done. It takes nothing from requests: theirs are fetched
// at once, and a failure here keeps no request from an attempt of its own.
func (s *Sets) Warm(ctx context.Context, wanted []Named) {
	next := make(chan Named)
	var all sync.WaitGroup
	for range min(warmers, len(wanted)) {
		all.Go(func() {
			_ = sleep.For(ctx, rand.N(warmWithin))
			for w := range next {
				if ctx.Err() == nil {
					s.try(ctx, w)
				}
			}
		})
	}
	for _, w := range wanted {
		select {
		case next <- w:
		case <-ctx.Done():
		}
	}
	close(next)
	all.Wait()
}

// try fetches a set that is not there, and returns when that has ended.
func (s *Sets) try(ctx context.Context, w Named) {
	s.Prepare(w.Company, w.Source)
	e, done := s.underWay(w)
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.set == nil && e.done == nil {
		e.tried = time.Time{}
	}
}

func (s *Sets) underWay(w Named) (*entry, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.companies[w.Company]
	if c == nil || c.sets[w.Source] == nil {
		return nil, nil
	}
	e := c.sets[w.Source]
	return e, e.done
}
