package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// attestCases are the numbers of clients, and the target share of the bare server's rate. A single
// client waits for a sync each time, while the bare server's rate is that of waking two processes
// in turn, which doubles when another process keeps the cores awake.
var attestCases = []struct {
	clients int
	target  *target
}{
	{1, &target{bound: 0.20, unsteady: true}},
	{16, atLeast(0.25)},
	{64, atLeast(0.35)},
	{256, nil},
}

// attest measures durable records of one company. The ratio to the bare server depends on the cost
// of the load generator, which is the same for both and shares the machine: a lighter generator
// makes the ratio smaller. So the report also has the processor times of the servers and of the
// generator.
func (b *bench) attest(ctx context.Context) (err error) {
	server, t, err := b.serveTenant(ctx, "attest.db")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	req := attestRequest(t)
	size, err := ask(ctx, server.addr, req, 201, nil)
	if err != nil {
		return err
	}
	bare, err := b.startBare(ctx, size, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()

	rounds, each := pick(b.quick, 3, 7), pick(b.quick, 150*time.Millisecond, time.Second)
	for _, c := range attestCases {
		column := "1 client"
		if c.clients > 1 {
			column = fmt.Sprintf("%d clients", c.clients)
		}
		b.say("%s", column)
		result, err := against(ctx, server, bare, c.clients, 201, [][]byte{req}, rounds, each)
		if err != nil {
			return fmt.Errorf("%d clients: %w", c.clients, err)
		}
		var cpuTarget *target
		if c.clients == 64 {
			cpuTarget = atMost(100)
		}
		b.addComparison("attest", column, "durable records/s", result, c.target, cpuTarget)
	}
	return nil
}

// against compares attestd with the bare server for requests that the clients send in turns,
// repeatedly.
func against(ctx context.Context, server, bare *child, clients, status int, requests [][]byte,
	rounds int, each time.Duration) (comparison, error) {
	turns := func(n int) []byte { return requests[n%len(requests)] }
	subject := &side{child: server, status: status, request: turns}
	reference := &side{child: bare, status: 201, request: turns}
	return inTurns(ctx, subject, reference, clients, rounds, each)
}

// addComparison reports the results of one load; t is the target of the ratio.
func (b *bench) addComparison(section, column, what string, c comparison, t, cpuTarget *target) {
	b.report.add(section, column, what, c.perSecond, perSecond, nil)
	b.report.addRounds(section, column, "  ÷ bare POST server", c.ratios, t)
	b.report.add(section, column, "  bare POST server", c.barePerSecond, perSecond, nil)
	b.report.add(section, column, "p50", millis(c.p50), milli, nil)
	b.report.add(section, column, "p99", millis(c.p99), milli, nil)
	cpu, bare, load := math.NaN(), math.NaN(), math.NaN()
	if c.hasCPU {
		cpu, bare, load = micros(c.cpu), micros(c.bareCPU), micros(c.load)
	}
	b.report.add(section, column, "server CPU each", cpu, micro, cpuTarget)
	b.report.add(section, column, "  bare server's", bare, micro, nil)
	b.report.add(section, column, "  load generator's", load, micro, nil)
}
