package jobs

import (
	"context"
	"log/slog"
	"time"

	"attestd/internal/sleep"
	"attestd/store"
)

// tokenKeysEvery is the interval of looking for token keys that sign no more.
const tokenKeysEvery = time.Minute

// WipeTokenKeys deletes the private parts of token keys from the database when they have ended.
func WipeTokenKeys(ctx context.Context, s *store.Store, log *slog.Logger) error {
	for {
		if err := sleep.For(ctx, tokenKeysEvery); err != nil {
			return err
		}
		if err := s.TokenKeys.Wipe(ctx, time.Now()); err != nil && ctx.Err() == nil {
			log.Warn("private parts of ended token keys may remain in the database", "error", err)
		}
	}
}
