package feed

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Keeper makes durable how far those have come who follow a feed: all that have moved, in one
// write, a while after the first of them has. So what that costs does not grow with their pace, and
// after a crash each of them does again what it has done in that while. P is what is kept of each,
// by its key.
type Keeper[K comparable, P any] struct {
	save  func(ctx context.Context, moved map[K]P) error
	every time.Duration
	log   *slog.Logger
	wake  chan struct{} // capacity 1: there may be something in moved

	saving sync.Mutex // orders the writes, so that none is overtaken by an older one
	mu     sync.Mutex
	moved  map[K]P
}

// NewKeeper returns a keeper that calls save, once in that time at most.
func NewKeeper[K comparable, P any](every time.Duration, save func(ctx context.Context, moved map[K]P) error, log *slog.Logger) *Keeper[K, P] {
	return &Keeper[K, P]{save: save, every: every, log: log, wake: make(chan struct{}, 1), moved: make(map[K]P)}
}

// Note says where somebody stands now. It never waits.
func (k *Keeper[K, P]) Note(key K, at P) {
	k.mu.Lock()
	k.moved[key] = at
	k.mu.Unlock()
	k.ring()
}

func (k *Keeper[K, P]) ring() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Flush makes durable what was noted. What cannot be written stays noted.
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

// Run flushes until ctx is done. That nothing can be written is logged once, and so is that it can
// again.
func (k *Keeper[K, P]) Run(ctx context.Context) error {
	failing := false
	for {
		select {
		case <-k.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-time.After(k.every):
		case <-ctx.Done():
			return ctx.Err()
		}
		err := k.Flush(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if !failing {
				k.log.Warn("positions of feeds cannot be kept; it is tried again", "error", err)
			}
			k.ring()
		case failing:
			k.log.Info("positions of feeds can be kept again")
		}
		failing = err != nil
	}
}
