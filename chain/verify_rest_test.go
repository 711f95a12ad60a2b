package chain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A run that yields to appends rests while it has the turn. The rest is bounded, even after a slow
// read, and ends with its context.
func TestVerificationPauseIsBoundedAndCancelable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		rests := func(ctx context.Context, worked time.Duration) time.Duration {
			p := pacer{turns, time.Now(), time.Now()}
			time.Sleep(worked)
			turns.appendedNow()
			stopped := time.Now()
			p.rest(ctx)
			return time.Since(stopped)
		}
		if d := rests(t.Context(), time.Millisecond); d != restShare*time.Millisecond {
			t.Errorf("after a millisecond of work it rests %v", d)
		}
		if d := rests(t.Context(), time.Minute); d != maxRest {
			t.Errorf("after a minute at the disk it rests %v", d)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if d := rests(gone, time.Minute); d != 0 {
			t.Errorf("without a waiter it rests %v", d)
		}
	})
}
