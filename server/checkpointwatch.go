package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"attestd/store"
)

// checkpointsEvery is how often all logs are compared with the checkpoints of them that are kept.
// The first time is after the start; a log that a witness is asked about is compared each time,
// too.
const checkpointsEvery = 24 * time.Hour

// watchCheckpoints compares the logs of all companies with the checkpoints of them that are kept,
// beside all other work: it uses half of a core at most. What it finds halts a company, which the
// store logs.
func watchCheckpoints(ctx context.Context, s *store.Store, log *slog.Logger) error {
	for {
		chains, err := s.Chains(ctx)
		failed := 0
		for _, number := range chains {
			began := time.Now()
			if e := s.Checkpoints.Agree(ctx, number); e != nil && !errors.Is(e, store.ErrRolledBack) {
				err = e
				failed++
			}
			if err := sleep(ctx, time.Since(began)); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			log.Error("logs could not be compared with the checkpoints of them that are kept", "logs", failed, "error", err)
		}
		if err := sleep(ctx, checkpointsEvery); err != nil {
			return err
		}
	}
}
