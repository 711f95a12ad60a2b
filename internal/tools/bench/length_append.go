package main

import (
	"context"
	"fmt"
	"time"
)

// append measures the rate of 64 clients on all shapes in turns, so that ratios are of adjacent
// rounds. The short chains are used in turns by round, and the many chains by request.
func (b *bench) append(ctx context.Context, shapes []*shape, rounds int) error {
	b.say("append rate at each length")
	rates := make([][]float64, len(shapes))
	ratios := make([][]float64, len(shapes))
	costs := make([][]float64, len(shapes))
	for r := range rounds {
		var short float64
		for i, s := range shapes {
			requests := make([][]byte, s.chains)
			for j, t := range s.tenants {
				requests[j] = attestRequest(t)
			}
			next := func(n int) []byte { return requests[n%len(requests)] }
			if i == 0 {
				next = func(int) []byte { return requests[r] }
			}
			result, err := b.appendTo(ctx, s, next, pick(b.quick, 250*time.Millisecond, time.Second), 0)
			if err != nil {
				return fmt.Errorf("append to %s: %w", s.column, err)
			}
			if i == 0 {
				short = result.perSecond()
			}
			rates[i] = append(rates[i], result.perSecond())
			if result.hasCPU {
				costs[i] = append(costs[i], micros(result.cpu)/float64(result.all))
			}
			ratios[i] = append(ratios[i], result.perSecond()/short)
		}
	}
	for i, s := range shapes {
		b.report.add(lengthSection, s.column, "durable records/s, 64 clients", median(rates[i]), perSecond, nil)
		b.report.addRounds(lengthSection, s.column, "  ÷ those at 1 k", ratios[i], s.appendTarget())
		b.report.add(lengthSection, s.column, "  server CPU each", median(costs[i]), micro, nil)
	}
	return nil
}

func (b *bench) appendTo(
	ctx context.Context, s *shape, next func(n int) []byte, d time.Duration, most int,
) (round, error) {
	clients, err := connect(ctx, s.server.addr, 64)
	if err != nil {
		return round{}, err
	}
	defer hangUp(clients)
	on := &side{child: s.server, status: 201, request: next, clients: clients}
	return on.load(ctx, d, most)
}

// resident measures the memory of each server after the rounds, and after an append to each of its
// chains.
func (b *bench) resident(ctx context.Context, shapes []*shape) error {
	for _, s := range shapes {
		next := func(n int) []byte { return attestRequest(s.tenants[n]) }
		if _, err := b.appendTo(ctx, s, next, time.Minute, s.chains); err != nil {
			return fmt.Errorf("append to each of %s: %w", s.column, err)
		}
		bytes, known := residentBytes(s.server.pid())
		b.report.add(lengthSection, s.column, "resident memory at the end", mebi(bytes, known), mebibytes,
			only(s.chains == manyChains, atMost(150)))
	}
	return nil
}
