package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	clockTick = 10 * time.Second // interval of comparing the clocks
	clockLeap = time.Minute      // step of the wall clock that is logged

	// difference from the database's clock, in either direction, without a warning
	maxClockAhead = time.Second
)

// readClocks reads the wall clock and a monotonic clock.
type readClocks func() (wall time.Time, steady time.Duration)

func clocks() readClocks {
	steady := steadyClock()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), steady() }
}

// clockStatus is what a server tells its operator about its clock.
type clockStatus struct {
	apart atomic.Bool  // the clock is not that of the database
	ahead atomic.Int64 // by how much it was ahead of the database's when they were compared last
	// they were compared
	compared atomic.Bool
	leaps    atomic.Int64 // how often it was found to have been set since the start
}

// compareClocks is a worker.
func (s *Server) compareClocks(ctx context.Context) error {
	if !s.Store.MultiWriter() {
		return nil
	}
	return compareClocks(ctx, func(ctx context.Context) (time.Duration, time.Duration, error) {
		return s.Store.ClockAhead(ctx, time.Now)
	}, &s.clockStatus, s.Log)
}

// compareClocks logs a warning when the wall clock differs from the database's clock, and when it
// agrees again. Servers that share a database give records and tokens times from their own clocks.
// ahead is Store.ClockAhead.
func compareClocks(
	ctx context.Context, ahead func(context.Context) (ahead, within time.Duration, err error),
	status *clockStatus, log *slog.Logger,
) error {
	ticks := time.NewTicker(clockTick)
	defer ticks.Stop()
	for apart := false; ; {
		by, within, err := ahead(ctx)
		if was := apart; err == nil {
			apart = by.Abs() > maxClockAhead+within
			status.apart.Store(apart)
			status.ahead.Store(int64(by))
			status.compared.Store(true)
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

// watchClock logs a warning when the wall clock leaps, because it determines the times of records
// and all expiry.
func watchClock(ctx context.Context, read readClocks, status *clockStatus, log *slog.Logger) error {
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
			status.leaps.Add(1)
			log.Warn("the clock was set, or is wrong", "leap", leap.Round(time.Second).String(), "now",
				newWall.UTC().Format(time.RFC3339))
		}
		wall, steady = newWall, newSteady
	}
}
