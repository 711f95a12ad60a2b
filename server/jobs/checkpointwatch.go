package jobs

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"attestd/internal/sleep"
	"attestd/store"
)

// checkpointsEvery is the interval of comparing all logs with their stored checkpoints. The first
// comparison follows the start. A log is also compared whenever a witness is asked to cosign it.
const checkpointsEvery = 24 * time.Hour

// WatchCheckpoints compares the logs of all companies with their stored checkpoints in the
// background. It uses at most half of a core. A failure halts the company, which the store logs.
func WatchCheckpoints(ctx context.Context, s *store.Store, log *slog.Logger) error {
	for {
		chains, err := s.Chains(ctx)
		failed := 0
		for _, number := range chains {
			began := time.Now()
			if e := s.Checkpoints.Agree(ctx, number); e != nil && !errors.Is(e, store.ErrRolledBack) {
				err = e
				failed++
			}
			if err := sleep.For(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			log.Error("logs could not be compared with their stored checkpoints", "logs", failed, "error", err)
		}
		if err := sleep.For(ctx, checkpointsEvery); err != nil {
			return err
		}
	}
}
