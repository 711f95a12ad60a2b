package store

import (
	"context"
	"time"
)

// Pace makes a pause after work that took some time; nil makes none.
type Pace func(ctx context.Context, worked time.Duration) error

func (p Pace) rest(ctx context.Context, began time.Time) error {
	if p == nil {
		return nil
	}
	return p(ctx, time.Since(began))
}
