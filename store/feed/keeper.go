package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"attestd/internal/sleep"
	"attestd/internal/wake"
)

// Keeper stores the positions of consumers of a feed. It writes all changed positions at once, some
// time after the first change, so that the cost does not depend on the rate of changes. After a
// crash, consumers repeat the work of that time. P is the position of a consumer with key K.
type Keeper[K comparable, P any] struct {
	save  func(ctx context.Context, moved map[K]P) error
	every time.Duration
	log   *slog.Logger
	wake  wake.Signal // set when moved may have entries

	saving sync.Mutex // orders the writes, so that an older one never overwrites a newer one
	mu     sync.Mutex
	moved  map[K]P
}

// NewKeeper returns a keeper that calls save at most once per the duration every.
func NewKeeper[K comparable, P any](
	every time.Duration, save func(ctx context.Context, moved map[K]P) error, log *slog.Logger,
) *Keeper[K, P] {
	return &Keeper[K, P]{save: save, every: every, log: log, wake: wake.NewSignal(), moved: make(map[K]P)}
}

// Note records the new position of a consumer. It never blocks.
func (k *Keeper[K, P]) Note(key K, at P) {
	k.mu.Lock()
	k.moved[key] = at
	k.mu.Unlock()
	k.wake.Set()
}

// Forget drops the positions that were not saved. They are of a consumer that has ended, and the
// next consumer continues from the saved ones.
func (k *Keeper[K, P]) Forget() {
	k.saving.Lock() // a Flush that fails puts its positions back
	defer k.saving.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.moved)
}

// Flush saves the changed positions. After an error they remain to be saved.
func (k *Keeper[K, P]) Flush(ctx context.Context) error {
	k.saving.Lock()
	defer k.saving.Unlock()
	k.mu.Lock()
	moved := k.moved
	k.moved = make(map[K]P)
	k.mu.Unlock()
	if len(moved) == 0 {
		return nil
	}
	err := k.save(ctx, moved)
	if err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		for key, at := range moved {
			if _, newer := k.moved[key]; !newer {
				k.moved[key] = at
			}
		}
	}
	return err
}

// Run flushes until ctx is done. It logs the first failure, and the recovery.
func (k *Keeper[K, P]) Run(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := sleep.For(ctx, k.every); err != nil {
			return err
		}
		err := k.Flush(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if !failing {
				k.log.Warn("feed positions not saved; retrying", "error", err)
			}
			k.wake.Set()
		case failing:
			k.log.Info("feed positions saved again")
		}
		failing = err != nil
	}
}
