package sleep_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/sleep"
)

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		for _, c := range []struct {
			d, passed time.Duration
			err       error
		}{
			{40 * time.Second, 40 * time.Second, nil},
			{0, 40 * time.Second, nil},
			{-time.Second, 40 * time.Second, nil},
			{time.Hour, time.Minute, context.DeadlineExceeded},
			{0, time.Minute, context.DeadlineExceeded},
		} {
			if err := sleep.For(ctx, c.d); !errors.Is(err, c.err) || time.Since(began) != c.passed {
				t.Errorf("%v: %v after %v", c.d, err, time.Since(began))
			}
		}
	})
}
