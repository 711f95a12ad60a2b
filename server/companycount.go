package server

import (
	"context"
	"sync/atomic"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/store"
)

const (
	countEvery   = time.Minute
	countTimeout = 30 * time.Second
	// After it has counted, it pauses that many times as long, at most countEvery.
	countShare = 20
)

// companyCount counts, for metrics, what all companies have. So a scrape waits for no database.
type companyCount struct {
	count   func(context.Context) (store.Usage, error)
	changed wake.Signal                 // set when the companies are to be counted soon
	now     atomic.Pointer[store.Usage] // nil while it is not known
}

func newCompanyCount(count func(context.Context) (store.Usage, error)) *companyCount {
	return &companyCount{count: count, changed: wake.NewSignal()}
}

// Status may be called at any time. It is nil while it is not known.
func (c *companyCount) Status() *store.Usage { return c.now.Load() }

// again has the companies counted soon. It never blocks.
func (c *companyCount) again() { c.changed.Set() }

// run is a worker.
func (c *companyCount) run(ctx context.Context) error {
	for {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, countTimeout)
		usage, err := c.count(limited)
		cancel()
		c.now.Store(&usage)
		if err != nil { // what is wrong with the database is said elsewhere
			c.now.Store(nil)
		}
		pause := min(countShare*time.Since(began), countEvery)
		if err := sleep.For(ctx, pause); err != nil {
			return err
		}
		wait := time.NewTimer(countEvery - pause)
		select {
		case <-ctx.Done():
		case <-c.changed:
		case <-wait.C:
		}
		if wait.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
