package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// audience has the clients of a stream, and a window that delays appends until all clients have
// received earlier records. Every client receives every message in the same order, so the k-th
// message of each is the same.
type audience struct {
	clients []*client
	check   bool // check that the first message is that of the first record of a valid chain

	window chan struct{} // a token for each record that may be appended
	// number of clients that have message k, at index k modulo its length
	got  [2 * streamWindow]atomic.Int64
	all  atomic.Int64   // number of messages that all clients have received
	wait sync.WaitGroup // the reading goroutines
}

// gather connects n clients to the stream.
func gather(ctx context.Context, addr string, n int, check bool) (*audience, error) {
	a := &audience{check: check, window: make(chan struct{}, streamWindow)}
	for range streamWindow {
		a.window <- struct{}{}
	}
	for range n {
		c, err := listen(ctx, addr)
		if err != nil {
			a.dismiss()
			return nil, err
		}
		a.clients = append(a.clients, c)
	}
	return a, nil
}

// dismiss closes the connections and waits for the reading goroutines.
func (a *audience) dismiss() {
	hangUp(a.clients)
	a.wait.Wait()
}

// follow reads the messages of one client until its connection ends.
func (a *audience) follow(c *client) error {
	for k := 0; ; k++ {
		m, err := c.message()
		if err != nil {
			return err
		}
		if k == 0 && a.check && !(bytes.Contains(m, []byte(`"index":0,`)) && bytes.Contains(m, []byte(`"valid":true`))) {
			return fmt.Errorf("unexpected first message: %.300s", m)
		}
		// No client receives message k+streamWindow before all have received k, so a slot is free
		// long before it is reused.
		if got := &a.got[k%len(a.got)]; got.Add(1) == int64(len(a.clients)) {
			got.Store(0)
			a.all.Add(1)
			a.window <- struct{}{}
		}
	}
}

// run appends for d and returns the rate of records that were delivered to all clients. afterAppend
// is called for each record.
func (a *audience) run(ctx context.Context, s *side, afterAppend func() error, d time.Duration) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := time.Now().Add(d)
	over := make(chan struct{})
	var ending atomic.Bool
	for _, c := range a.clients {
		a.wait.Go(func() {
			if err := a.follow(c); !ending.Load() {
				cancel(fmt.Errorf("a client of the stream: %w", err))
			}
		})
	}
	defer limit(ctx, s.clients, end.Add(grace))()
	var appending sync.WaitGroup
	for n, c := range s.clients {
		appending.Go(func() {
			for {
				select {
				case <-a.window:
				case <-over:
					return
				case <-ctx.Done():
					return
				}
				status, body, err := c.do(s.request(n))
				if err == nil && status != s.status {
					err = fmt.Errorf("answer %d instead of %d: %.200s", status, s.status, body)
				}
				if err == nil {
					err = afterAppend()
				}
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	select {
	case <-time.After(time.Until(end)):
	case <-ctx.Done():
	}
	delivered, elapsed := a.all.Load(), d+time.Since(end)
	close(over)
	appending.Wait()
	ending.Store(true)
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if delivered == 0 {
		return 0, fmt.Errorf("not one record reached all %d clients in %v", len(a.clients), d)
	}
	return float64(delivered) / elapsed.Seconds(), nil
}
