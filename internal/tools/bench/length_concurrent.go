package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// verifyRequests is the number of concurrent requests for the verification of one chain.
const verifyRequests = 100

// appendDuringVerify measures how much the append rate falls while a chain is verified, and how
// long a company with an empty chain waits for its verdict meanwhile. Each round restarts the
// server, so that it has verified nothing.
func (b *bench) appendDuringVerify(ctx context.Context, s *shape) error {
	if !s.million {
		return nil
	}
	b.say("%s: appends while it is verified", s.column)
	empty, err := register(ctx, s.server.addr, "empty")
	if err != nil {
		return err
	}
	req := attestRequest(s.tenants[0])
	next := func(int) []byte { return req }
	each := pick(b.quick, 200*time.Millisecond, 2*time.Second)
	var background, requests, waited []float64
	for range pick(b.quick, 2, 3) {
		for _, way := range []struct {
			ratios *[]float64
			begin  func(context.Context, *shape) (end func() error, err error)
		}{{&background, verifyForStream}, {&requests, verifyForRequests}} {
			if err := s.restartCold(ctx, b); err != nil {
				return err
			}
			alone, err := b.appendTo(ctx, s, next, each, 0)
			if err != nil {
				return err
			}
			end, err := way.begin(ctx, s)
			if err != nil {
				return err
			}
			during, err := b.appendTo(ctx, s, next, each, 0)
			if way.ratios == &requests && err == nil {
				var took time.Duration
				took, err = verdictTime(ctx, s, empty)
				waited = append(waited, millis(took))
			}
			if err := errors.Join(err, end()); err != nil {
				return fmt.Errorf("beside a verification: %w", err)
			}
			*way.ratios = append(*way.ratios, during.perSecond()/alone.perSecond())
		}
	}
	// otherwise the last verification would overlap with the next measurement
	if err := s.start(ctx, b); err != nil {
		return err
	}
	b.report.addRounds(lengthSection, s.column, "append rate while verifying ÷ alone", background, atLeast(0.8))
	b.report.addRounds(lengthSection, s.column, fmt.Sprintf("  while %d requests verify ÷ alone", verifyRequests),
		requests, atLeast(0.8))
	b.report.add(lengthSection, s.column, "  verdict about an empty chain meanwhile", median(waited), milli, atMost(100))
	return nil
}

// appendDuringPass measures how much the append rate falls while the background verification checks
// every signature of a chain, in turns with servers that make none.
func (b *bench) appendDuringPass(ctx context.Context, s *shape) error {
	if !s.million {
		return nil
	}
	b.say("%s: appends beside the background verification", s.column)
	req := attestRequest(s.tenants[0])
	each := pick(b.quick, 500*time.Millisecond, 4*time.Second)
	var ratios []float64
	for round := range pick(b.quick, 2, 6) {
		rates := map[string]float64{}
		ways := []string{"off", "24h"}
		if round%2 == 1 {
			ways = []string{"24h", "off"}
		}
		for _, way := range ways {
			if err := s.restartCold(ctx, b, "--verify-every", way); err != nil {
				return err
			}
			load, err := b.appendTo(ctx, s, func(int) []byte { return req }, each, 0)
			if err != nil {
				return err
			}
			rates[way] = load.perSecond()
		}
		ratios = append(ratios, rates["24h"]/rates["off"])
	}
	b.report.addRounds(lengthSection, s.column, "append rate beside the background verification ÷ without", ratios,
		atLeast(0.97))
	return s.start(ctx, b)
}

// verifyForStream starts the verification of a chain: the first record after a restart causes it if
// a client listens. The listener receives nothing before it has ended.
func verifyForStream(ctx context.Context, s *shape) (end func() error, err error) {
	listener, err := listen(ctx, s.server.addr)
	if err != nil {
		return nil, err
	}
	return listener.conn.Close, nil
}

// verifyForRequests requests verifications repeatedly on many connections.
func verifyForRequests(ctx context.Context, s *shape) (end func() error, err error) {
	clients, err := connect(ctx, s.server.addr, verifyRequests)
	if err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	failed := make(chan error, verifyRequests)
	for _, c := range clients {
		wait.Go(func() {
			for {
				if err := c.verify(ctx, s.tenants[0]); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	return func() (err error) {
		hangUp(clients)
		wait.Wait()
		close(failed)
		for e := range failed {
			if !errors.Is(e, net.ErrClosed) {
				err = errors.Join(err, e)
			}
		}
		return err
	}, nil
}

// verdictTime returns how long a company waits for the verdict on its chain.
func verdictTime(ctx context.Context, s *shape, t tenant) (time.Duration, error) {
	c, err := dial(ctx, s.server.addr)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	start := time.Now()
	err = c.verify(ctx, t)
	return time.Since(start), err
}
