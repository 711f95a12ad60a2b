package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const lengthSection = "length of the chain"

const manyChains = 10_000 // in one file

// shape is a database of one size. Targets apply to the shapes in the requirements.
type shape struct {
	column          string
	chains, records int // of each chain
	visit           int // chains that are read and verified, which bounds the time
	million         bool
	db              string
	tenants         []tenant
	server          *child
}

// start restarts the server of a shape.
func (s *shape) start(ctx context.Context, b *bench, flags ...string) (err error) {
	if err := s.stop(); err != nil {
		return err
	}
	s.server, err = b.serve(ctx, s.db, flags...)
	return err
}

// restartCold restarts the server of a shape, so that it has verified nothing.
func (s *shape) restartCold(ctx context.Context, b *bench, flags ...string) error {
	if err := s.stop(); err != nil {
		return err
	}
	if err := os.Remove(s.db + ".verified"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.start(ctx, b, flags...)
}

func (s *shape) stop() error {
	if s.server == nil {
		return nil
	}
	err := s.server.stop()
	s.server = nil
	return err
}

func (s *shape) total() int { return s.visit * s.records }

// only returns t if meant is true, otherwise nil.
func only(meant bool, t *target) *target {
	if meant {
		return t
	}
	return nil
}

// appendTarget returns the target of the append rate relative to that of the short chain.
func (s *shape) appendTarget() *target {
	if s.chains == manyChains {
		return atLeast(0.5)
	}
	return only(s.million, atLeast(0.9))
}

// shapes returns the shapes. There are several short chains, so that each round of appends has one
// that is still short.
func (b *bench) shapes(rounds int) []*shape {
	if b.quick {
		return []*shape{
			{column: "1 k", chains: rounds, records: 1_000, visit: rounds},
			{column: "20 k", chains: 1, records: 20_000, visit: 1, million: true},
			{column: "200 chains of 100", chains: 200, records: 100, visit: 50},
		}
	}
	return []*shape{
		{column: "1 k", chains: rounds, records: 1_000, visit: rounds},
		{column: "100 k", chains: 1, records: 100_000, visit: 1},
		{column: "1 M", chains: 1, records: 1_000_000, visit: 1, million: true},
		{column: "10 k chains of 100", chains: manyChains, records: 100, visit: 1_000},
	}
}

// length measures what must not depend on the length of a chain, or only in proportion.
func (b *bench) length(ctx context.Context) (err error) {
	rounds := pick(b.quick, 3, 5)
	shapes := b.shapes(rounds)
	defer func() {
		for _, s := range shapes {
			err = errors.Join(err, s.stop())
		}
	}()
	for i, s := range shapes {
		s.db = filepath.Join(b.dir, fmt.Sprintf("length-%d.db", i))
		b.say("%s: seeding", s.column)
		if s.tenants, err = b.seed(ctx, s.db, s.chains, s.records); err != nil {
			return fmt.Errorf("seed %s: %w", s.column, err)
		}
		for _, measure := range []func(context.Context, *shape) error{b.restart, b.read, b.prove, b.check, b.verify, b.appendDuringVerify, b.appendDuringPass} {
			if err := measure(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", s.column, err)
			}
		}
	}
	if err := b.append(ctx, shapes, rounds); err != nil {
		return err
	}
	return b.resident(ctx, shapes)
}

// restart measures the time from the start of the process to the first healthy response, and leaves
// the last server running.
func (b *bench) restart(ctx context.Context, s *shape) error {
	b.say("%s: restart", s.column)
	var took []float64
	for range 5 {
		if err := s.stop(); err != nil {
			return err
		}
		start := time.Now()
		if err := s.start(ctx, b); err != nil {
			return err
		}
		if _, err := ask(ctx, s.server.addr, request("GET", "/v1/health", "", "", ""), 200, nil); err != nil {
			return err
		}
		took = append(took, millis(time.Since(start)))
	}
	b.report.add(lengthSection, s.column, "restart to health", median(took), milli, only(s.million, atMost(200)))
	return nil
}
