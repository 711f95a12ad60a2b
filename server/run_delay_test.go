package server

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/testenv"
)

// A server that is asked to stop leaves the load balancer at once, serves requests for the drain
// delay, and drains then.
func TestRequestsAreServedForTheDrainDelay(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := runDelayed(t, 30*time.Second, func(http.ResponseWriter, *http.Request) {})
		s.stop()
		synctest.Wait()
		s.want(t, "not ready")
		s.get()
		time.Sleep(29 * time.Second)
		s.get()
		s.want(t, "not ready", "200 OK", "200 OK")
		time.Sleep(3 * time.Second)
		s.want(t, "not ready", "200 OK", "200 OK", "streams closed", "worker stopped", "ended")
		if err := <-s.ended; err != nil {
			t.Errorf("a clean stop returned %v", err)
		}
	})
}

// A part that fails ends the server at once, whatever the drain delay, also while that runs.
func TestFailureEndsTheDrainDelay(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	for name, before := range map[string]bool{"before the stop": true, "after the stop": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fails := make(chan struct{})
				s := runDelayed(t, time.Hour, func(http.ResponseWriter, *http.Request) {}, func(ctx context.Context) error {
					select {
					case <-fails:
						return errors.New("broken")
					case <-ctx.Done():
						return nil
					}
				})
				began := time.Now()
				if !before {
					s.stop()
					synctest.Wait()
				}
				close(fails)
				if err := <-s.ended; err == nil || time.Since(began) > time.Minute {
					t.Errorf("returned %v after %v", err, time.Since(began))
				}
			})
		})
	}
}
