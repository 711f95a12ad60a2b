package main

import (
	"context"
	"time"
)

// verify measures the first verification by a process, and the following ones. It fails if a seeded
// chain is not valid.
func (b *bench) verify(ctx context.Context, s *shape) error {
	b.say("%s: verify", s.column)
	c, err := dial(ctx, s.server.addr)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	pass := func() (time.Duration, error) {
		start := time.Now()
		for _, t := range s.tenants[:s.visit] {
			if err := c.verify(ctx, t); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
	const calibration = 300 * time.Millisecond
	signature := ed25519Verify(calibration)
	first, err := pass()
	if err != nil {
		return err
	}
	// the machine may have changed its speed
	signature = (signature + ed25519Verify(calibration)) / 2
	var again []float64
	for range 3 {
		took, err := pass()
		if err != nil {
			return err
		}
		again = append(again, micros(took)/float64(s.total()))
	}
	b.report.add(lengthSection, s.column, "first verify, per record", micros(first)/float64(s.total()), micro, nil)
	b.report.add(lengthSection, s.column, "  ÷ one Ed25519 check on one core",
		float64(first)/float64(s.total())/float64(signature), ratio,
		only(s.million, atMost(0.6)))
	b.report.add(lengthSection, s.column, "repeated verify, per record", median(again), micro, only(s.million, atMost(5)))
	return nil
}
