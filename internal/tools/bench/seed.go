package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jcs"
	"attestd/store"
)

// appenders is the number of goroutines that keep the log's batches full while a file is seeded.
const appenders = 512

// seed writes a database with chains of the same length, through the product's log and store,
// because HTTP would take several times as long. The result is verified over HTTP later.
func (b *bench) seed(ctx context.Context, path string, chains, records int) (tenants []tenant, err error) {
	s, err := store.Open(ctx, path, b.schema, store.Options{Domain: cred.Domain{}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	go s.Run(context.WithoutCancel(ctx), store.RunOptions{}) // until Close
	drafts := make([]chain.Draft, chains)
	tenants = make([]tenant, chains)
	err = each(ctx, chains, func(i int) error {
		id := fmt.Sprintf("company-%d", i)
		company, key, err := s.Companies.Create(ctx, id, nil, time.Now())
		if err != nil {
			return err
		}
		tenants[i] = tenant{id, key.Key}
		drafts[i], err = draft(company)
		return err
	})
	if err != nil {
		return nil, err
	}

	// Write chain by chain, so that a batch extends few chains, because each costs a head.
	err = each(ctx, chains*records, func(i int) error {
		_, err := s.Append(ctx, drafts[i/records])
		return err
	})
	return tenants, err
}

// draft returns the record of attestRequest, as the server would pass it to the log.
func draft(c *store.Company) (chain.Draft, error) {
	payload := fmt.Appendf(nil, `{"agentId":%q,"companyId":%q,"actionType":%q,"payload":%s}`, callerAgent, c.ID,
		callerAction, callerPayload)
	canonical, err := jcs.Append(nil, payload, 128)
	return chain.Draft{Chain: c.Chain, Payload: payload, Canonical: canonical}, err
}

// each calls do for [0, n) from many goroutines, starting in order, and returns the first error.
func each(ctx context.Context, n int, do func(i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(appenders, n) {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}
