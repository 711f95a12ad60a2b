package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"attestd/chain"
	"attestd/internal/sleep"
	"attestd/store"
	"attestd/store/db"
)

const (
	// how often access tokens and used proofs that have ended are looked for, which have an index
	// by time
	tokensEvery = 10 * time.Minute
	// how often all other rows are, and when first: servers of an older schema, which would miss a
	// passport, are replaced by then
	retainedEvery = 24 * time.Hour
	retainedFirst = time.Hour

	// rest after work on the database, as a multiple of that, and its bounds
	sweepRest        = 19
	leastSweepRest   = 10 * time.Millisecond
	longestSweepRest = time.Second
)

// Retention deletes rows some time after what they are for has ended. Of the servers on a database
// one does it.
type Retention struct {
	Store  *store.Store
	Keep   store.Retention
	Series func(store.Session) (of chain.Series, ok bool)
	Log    *slog.Logger

	mu     sync.Mutex
	status RetentionStatus
}

// RetentionStatus is what this server has deleted since its start.
type RetentionStatus struct {
	Deleted map[string]int64 // rows by store.RetainedKinds
	Ended   time.Time        // of the last pass over all kinds without an error; zero for never
	Err     error            // of the last pass; nil if there was none
}

// Status may be called at any time.
func (r *Retention) Status() RetentionStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.Deleted = make(map[string]int64, len(store.RetainedKinds))
	for _, kind := range store.RetainedKinds {
		s.Deleted[kind] = r.status.Deleted[kind]
	}
	return s
}

// Run deletes while this server has the duty, until ctx is done.
func (r *Retention) Run(ctx context.Context) error {
	whileOnDuty(ctx, r.Store, "retention", r.passes)
	return ctx.Err()
}

// passes makes one pass after the other until ctx is done. The first one comes some time after the
// start, which has other work.
func (r *Retention) passes(ctx context.Context, held *db.Held) {
	all := retainedFirst // until the next pass over all kinds
	for sleep.For(ctx, tokensEvery) == nil {
		all -= tokensEvery
		if isDue := all <= 0; r.pass(ctx, held, isDue) && isDue {
			all = retainedEvery
		}
	}
}

// pass deletes tokens and proofs, and with all the rows of every kind. It reports whether it came
// to its end. Before each transaction it asks whether this server still has the duty.
func (r *Retention) pass(ctx context.Context, held *db.Held, all bool) bool {
	gone := map[string]int64{}
	pace := func(ctx context.Context, worked time.Duration) error {
		if err := restAfterSweep(ctx, worked); err != nil {
			return err
		}
		return held.Check(ctx)
	}
	sweep := store.Sweep{Keep: r.Keep, Now: time.Now, Pace: pace, Deleted: func(kind string, rows int64) {
		gone[kind] += rows
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.status.Deleted == nil {
			r.status.Deleted = map[string]int64{}
		}
		r.status.Deleted[kind] += rows
	}}
	err := held.Check(ctx)
	if err == nil {
		err = r.Store.Expired.Tokens(ctx, sweep)
	}
	if err == nil && all {
		err = r.Store.Expired.Passports(ctx, sweep)
	}
	if err == nil && all {
		err = r.Store.Expired.Sessions(ctx, sweep, r.Series)
	}
	if err == nil && all {
		err = r.Store.Expired.RetryKeys(ctx, sweep)
	}
	ended := err == nil
	if ctx.Err() != nil || errors.Is(err, db.ErrDutyLost) {
		err = nil // the next server, or start, continues
	}
	r.report(gone, all && ended && ctx.Err() == nil, err)
	return err == nil
}

// report logs what a pass has deleted, and an error when it is new.
func (r *Retention) report(gone map[string]int64, all bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && all {
		r.status.Ended = time.Now()
	}
	isNew := r.status.Err == nil
	if r.status.Err = err; err != nil && isNew {
		r.Log.Warn("rows that have ended remain in the database; the next pass tries again", "error", err)
	}
	var deleted []any
	for _, kind := range store.RetainedKinds {
		if gone[kind] > 0 {
			deleted = append(deleted, kind, gone[kind])
		}
	}
	if len(deleted) > 0 {
		r.Log.Info("rows that have ended were deleted", deleted...)
	}
}

// restAfterSweep leaves the database to others for most of the time.
func restAfterSweep(ctx context.Context, worked time.Duration) error {
	return sleep.For(ctx, min(max(sweepRest*worked, leastSweepRest), longestSweepRest))
}
