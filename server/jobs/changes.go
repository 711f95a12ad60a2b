package jobs

import (
	"context"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/wake"
	"attestd/server/stream"
)

const recheckPause = 250 * time.Millisecond // after a failed check

// Changes holds the companies that other servers have changed. This server then checks their
// streams and webhooks again, because a credential or a webhook may have been deleted.
type Changes struct {
	hub       *stream.Hub
	deliverer *Deliverer

	companies *wake.Pending[int64]
}

func NewChanges(hub *stream.Hub, d *Deliverer) *Changes {
	return &Changes{hub: hub, deliverer: d, companies: wake.NewPending[int64]()}
}

// Add adds a company. It never blocks, because the store calls it when it learns of a change.
func (c *Changes) Add(company int64) { c.companies.Add(company) }

// Run checks changed companies until ctx is done.
func (c *Changes) Run(ctx context.Context) error {
	for {
		select {
		case <-c.companies.Signal:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, company := range c.companies.Drain() {
			if err := c.hub.Recheck(company); err != nil {
				c.Add(company)
				_ = sleep.For(ctx, recheckPause) // the loop handles ctx
			}
			c.deliverer.recheck(company)
		}
	}
}

// Follow returns when streams and webhooks follow what an operator has changed of a company.
func (c *Changes) Follow(company int64) {
	_ = c.hub.Recheck(company) // those that could not be looked up are again, in time
	c.deliverer.recheck(company)
	c.deliverer.recheck(everyCompany)
}
