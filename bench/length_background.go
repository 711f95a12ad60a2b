package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// background measures what appends lose while a chain is verified for the stream: the first record after a restart sets that off
// when someone listens. The listener hears nothing before it has ended.
func (b *bench) background(ctx context.Context, s *shape) error {
	if !s.million {
		return nil
	}
	b.say("%s: appends while it is verified in the background", s.column)
	req := attestRequest(s.tenants[0])
	next := func(int) []byte { return req }
	each := pick(b.quick, 200*time.Millisecond, 2*time.Second)
	var kept []float64
	for range pick(b.quick, 2, 3) {
		if err := s.start(ctx, b); err != nil {
			return err
		}
		alone, err := b.appendTo(ctx, s, next, each, 0)
		if err != nil {
			return err
		}
		listener, err := listen(ctx, s.server.addr)
		if err != nil {
			return err
		}
		beside, err := b.appendTo(ctx, s, next, each, 0)
		if err := errors.Join(err, listener.conn.Close()); err != nil {
			return fmt.Errorf("beside a verification: %w", err)
		}
		kept = append(kept, beside.perSecond()/alone.perSecond())
	}
	if err := s.start(ctx, b); err != nil { // or the last verification would go on beside what is measured next
		return err
	}
	b.report.add(lengthSection, s.column, "append rate while verifying ÷ alone", median(kept), ratio, atLeast(0.8))
	return nil
}
