package server

import (
	"context"
	"log/slog"
	"time"
)

const (
	clockTick = 10 * time.Second // how often the clocks are compared
	clockLeap = time.Minute      // a step of the wall clock that is worth a warning

	maxClockAhead = time.Second // of the database's clock, or behind it, without a warning
)

// readClocks reads the wall clock and a clock that nobody sets.
type readClocks func() (wall time.Time, steady time.Duration)

func clocks() readClocks {
	steady := steadyClock()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), steady() }
}

// compareClocks is a worker.
func (s *Server) compareClocks(ctx context.Context) error {
	if !s.Store.MultiWriter() {
		return nil
	}
	return compareClocks(ctx, func(ctx context.Context) (time.Duration, time.Duration, error) {
		return s.Store.ClockAhead(ctx, time.Now)
	}, s.Log)
}

// compareClocks warns, once until it is right again, while the wall clock is not that of the
// database: servers that share one give records and tokens times by their own clocks. ahead is
// Store.ClockAhead.
func compareClocks(ctx context.Context, ahead func(context.Context) (ahead, within time.Duration, err error), log *slog.Logger) error {
	ticks := time.NewTicker(clockTick)
	defer ticks.Stop()
	for apart := false; ; {
		by, within, err := ahead(ctx)
		if was := apart; err == nil {
			apart = by.Abs() > maxClockAhead+within
			switch {
			case apart && !was:
				log.Warn("the clock is not that of the database: set both by NTP", "ahead", by.Round(time.Millisecond).String())
			case was && !apart:
				log.Info("the clock is that of the database again", "ahead", by.Round(time.Millisecond).String())
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

// watchClock warns when the wall clock leaps: times of records, and whatever expires, go by it.
func watchClock(ctx context.Context, read readClocks, log *slog.Logger) error {
	ticks := time.NewTicker(clockTick)
	defer ticks.Stop()
	wall, steady := read()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		newWall, newSteady := read()
		if leap := newWall.Sub(wall) - (newSteady - steady); leap.Abs() > clockLeap {
			log.Warn("the clock was set, or is wrong", "leap", leap.Round(time.Second).String(), "now", newWall.UTC().Format(time.RFC3339))
		}
		wall, steady = newWall, newSteady
	}
}
