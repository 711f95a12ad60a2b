package server

import (
	"context"
	"log/slog"
	"time"
)

const (
	clockTick = 10 * time.Second // how often the clocks are compared
	clockLeap = time.Minute      // a step of the wall clock that is worth a warning
)

// readClocks reads the wall clock and a clock that nobody sets.
type readClocks func() (wall time.Time, steady time.Duration)

func clocks() readClocks {
	steady := steadyClock()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), steady() }
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
