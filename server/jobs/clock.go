package jobs

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"attestd/store"
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
	steady := SteadyClock()
	return func() (time.Time, time.Duration) { return time.Now().Round(0), steady() }
}

// Clock watches the clock of this machine.
type Clock struct {
	store *store.Store
	log   *slog.Logger
	state clockState
}

// clockState is what was found out about the clock.
type clockState struct {
	apart    atomic.Bool
	ahead    atomic.Int64
	compared atomic.Bool
	leaps    atomic.Int64
}

// ClockStatus is what a server tells its operator about its clock.
type ClockStatus struct {
	Apart    bool          // the clock is not that of the database
	Ahead    time.Duration // by how much it was ahead of that when they were compared last
	Compared bool          // they were compared
	Leaps    int64         // how often it was found to have been set since the start
}

func NewClock(s *store.Store, log *slog.Logger) *Clock { return &Clock{store: s, log: log} }

// Status may be called at any time.
func (c *Clock) Status() ClockStatus {
	return ClockStatus{c.state.apart.Load(), time.Duration(c.state.ahead.Load()), c.state.compared.Load(), c.state.leaps.Load()}
}

// Run compares the clocks until ctx is done.
func (c *Clock) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	if c.store.MultiWriter() {
		group.Go(func() {
			ahead := func(ctx context.Context) (time.Duration, time.Duration, error) {
				return c.store.ClockAhead(ctx, time.Now)
			}
			_ = compareClocks(ctx, ahead, &c.state, c.log)
		})
	}
	return watchClock(ctx, clocks(), &c.state, c.log)
}

// compareClocks logs a warning when the wall clock differs from the database's clock, and when it
// agrees again. Servers that share a database give records and tokens times from their own clocks.
// ahead is Store.ClockAhead.
func compareClocks(
	ctx context.Context, ahead func(context.Context) (ahead, within time.Duration, err error),
	state *clockState, log *slog.Logger,
) error {
	ticks := time.NewTicker(clockTick)
	defer ticks.Stop()
	for apart := false; ; {
		by, within, err := ahead(ctx)
		if was := apart; err == nil {
			apart = by.Abs() > maxClockAhead+within
			state.apart.Store(apart)
			state.ahead.Store(int64(by))
			state.compared.Store(true)
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
func watchClock(ctx context.Context, read readClocks, state *clockState, log *slog.Logger) error {
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
			state.leaps.Add(1)
			log.Warn("the clock was set, or is wrong", "leap", leap.Round(time.Second).String(), "now",
				newWall.UTC().Format(time.RFC3339))
		}
		wall, steady = newWall, newSteady
	}
}
