package main

import (
	"context"
	"time"
)

// verify measures the first verification of a database, the following ones, and the first one
// after a restart of the server. It fails if a seeded chain is not valid.
func (b *bench) verify(ctx context.Context, s *shape) error {
	b.say("%s: verify", s.column)
	c, err := dial(ctx, s.server.addr)
	if err != nil {
		return err
	}
	defer func() { c.conn.Close() }()
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
	var restarted []float64
	for range 3 {
		took, err := pass()
		if err != nil {
			return err
		}
		again = append(again, micros(took)/float64(s.total()))

		// the first verification after a restart, in turns with the repeated ones
		c.conn.Close()
		if err := s.start(ctx, b); err != nil {
			return err
		}
		if c, err = dial(ctx, s.server.addr); err != nil {
			return err
		}
		if took, err = pass(); err != nil {
			return err
		}
		restarted = append(restarted, micros(took)/float64(s.total()))
	}
	b.report.add(lengthSection, s.column, "first verify, per record", micros(first)/float64(s.total()), micro, nil)
	b.report.add(lengthSection, s.column, "  ÷ one Ed25519 check on one core",
		float64(first)/float64(s.total())/float64(signature), ratio,
		only(s.million, atMost(0.6)))
	b.report.add(lengthSection, s.column, "repeated verify, per record", median(again), micro, only(s.million, atMost(5)))
	b.report.add(lengthSection, s.column, "first verify after a restart, per record", median(restarted), micro, nil)
	b.report.add(lengthSection, s.column, "  ÷ repeated verify", median(restarted)/median(again), ratio,
		only(s.million, atMost(2)))
	return nil
}
