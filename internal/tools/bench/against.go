package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"attestd/crypto/jose"
)

const againstSection = "beside another attestd"

// other measures appends in turns with another attestd, which --against names: before a change and
// after it, on one machine at one time. Without the flag it does nothing.
func (b *bench) other(ctx context.Context) (err error) {
	if b.another == "" {
		return nil
	}
	var servers [2]*child // this one, and the other
	var tenants [2]tenant
	for i, binary := range []string{b.binary(), b.another} {
		db := filepath.Join(b.dir, fmt.Sprintf("beside-%d.db", i))
		if servers[i], err = serve(ctx, binary, db); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, servers[i].stop()) }()
		if tenants[i], err = register(ctx, servers[i].addr, "acme"); err != nil {
			return err
		}
		if err := registerAgent(ctx, servers[i].addr, tenants[i]); err != nil {
			return err
		}
	}
	rounds, each := pick(b.quick, 10, 40), pick(b.quick, 150*time.Millisecond, 500*time.Millisecond)
	for _, clients := range []int{1, 16, 64} {
		var sides [2]*side
		for i := range sides {
			plain := attestRequest(tenants[i])
			sides[i] = &side{child: servers[i], status: 201, request: func(int) []byte { return plain }}
		}
		if err := b.besideOther(ctx, sides, clients, fmt.Sprintf("%d clients", clients), rounds, each); err != nil {
			return err
		}
	}
	var sides [2]*side
	for i := range sides {
		key, err := enrol(ctx, servers[i], tenants[i], jose.EdDSA)
		if err != nil {
			return err
		}
		if sides[i], err = signedSide(ctx, servers[i], tenants[i], key, pick(b.quick, 20_000, 250_000)); err != nil {
			return err
		}
	}
	return b.besideOther(ctx, sides, 64, "64, with statements", rounds, each)
}

// besideOther loads both sides and adds what they did, and by how much this one differs.
func (b *bench) besideOther(ctx context.Context, sides [2]*side, clients int, column string, rounds int, each time.Duration) error {
	b.say("beside another: %s", column)
	c, err := inTurns(ctx, sides[0], sides[1], clients, rounds, each)
	if err != nil {
		return fmt.Errorf("%s: %w", column, err)
	}
	cpu := math.NaN()
	if c.hasCPU && c.cpu > 0 {
		cpu = float64(c.bareCPU) / float64(c.cpu)
	}
	b.report.add(againstSection, column, "records/s", c.perSecond, perSecond, nil)
	b.report.add(againstSection, column, "  ÷ the other's", c.ratio, ratio, nil)
	b.report.add(againstSection, column, "the other's CPU each ÷ this one's", cpu, ratio, nil)
	return nil
}
