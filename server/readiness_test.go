package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"attestd/server/httpapi"
	"attestd/server/jobs"
)

// While a commit hangs, a server answers that it is not ready, within seconds, and is ready again
// when the commit ends.
func TestNotReadyWhileACommitHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		s := &status{background: background{readyCheck: jobs.NewReadyCheck(func(context.Context) error { <-hung; return nil })}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.readyCheck.Run(ctx) }()
		for range 3 {
			began := time.Now()
			err := s.writable(t.Context())
			if e := httpapi.Classify(err); e.Status != 503 || e.Code != "NOT_DONE" || time.Since(began) != 5*time.Second {
				t.Errorf("after %v: %d %s", time.Since(began), e.Status, e.Code)
			}
		}
		close(hung)
		synctest.Wait()
		if err := s.writable(t.Context()); err != nil {
			t.Errorf("after the commit: %v", err)
		}
		stop()
		<-ended
	})
}
