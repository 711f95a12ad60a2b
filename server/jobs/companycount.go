package jobs

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

// CompanyCount counts, for metrics, what all companies have. So a scrape waits for no database.
type CompanyCount struct {
	count   func(context.Context) (store.Usage, error)
	changed wake.Signal                 // set when the companies are to be counted soon
	now     atomic.Pointer[store.Usage] // nil while it is not known
}

func NewCompanyCount(count func(context.Context) (store.Usage, error)) *CompanyCount {
	return &CompanyCount{count: count, changed: wake.NewSignal()}
}

// Status may be called at any time. It is nil while it is not known.
func (c *CompanyCount) Status() *store.Usage { return c.now.Load() }

// Recount has the companies counted soon. It never blocks.
func (c *CompanyCount) Recount() { c.changed.Set() }

// Run is a worker.
func (c *CompanyCount) Run(ctx context.Context) error {
	for {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, countTimeout)
		usage, err := c.count(limited)
		cancel()
		c.now.Store(&usage)
		if err != nil { // another job reports what is wrong with the database
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
