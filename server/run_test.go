package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/internal/testenv"
	"attestd/server/internal/pipes"
)

// diary records what happens in which order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) record(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *diary) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.lines, lines) {
		t.Errorf("happened: %q\nwant:     %q", d.lines, lines)
	}
}

// started is a machine that runs in a bubble.
type started struct {
	diary
	ln     *pipes.Network
	client http.Client
	stop   context.CancelFunc
	ended  chan error
}

// runMachine starts a machine with handler and a worker that does nothing until it is stopped, in
// addition to any others.
func runMachine(t *testing.T, handler http.HandlerFunc, workers ...worker) *started {
	return runDelayed(t, 0, handler, workers...)
}

// runDelayed is runMachine with a drain delay.
func runDelayed(t *testing.T, delay time.Duration, handler http.HandlerFunc, workers ...worker) *started {
	s := &started{ln: pipes.New(), ended: make(chan error, 1)}
	s.client.Transport = &http.Transport{DialContext: s.ln.Dial}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	m := lifecycle{
		handler: handler,
		begin:   func(context.Context) {},
		streams: func() { s.record("streams closed") },
		delay:   delay,
		leave: func() {
			if delay > 0 {
				s.record("not ready")
			}
		},
		log: slog.New(slog.DiscardHandler),
		workers: append(workers, func(ctx context.Context) error {
			<-ctx.Done()
			s.record("worker stopped")
			return ctx.Err()
		}),
	}
	go func() {
		err := m.run(ctx, s.ln)
		s.record("ended")
		s.ended <- err
	}()
	t.Cleanup(s.client.CloseIdleConnections)
	return s
}

// get makes a request in the background and records its outcome.
func (s *started) get() {
	go func() {
		res, err := s.client.Get("http://attestd/")
		if err != nil {
			s.record("request failed")
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		s.record(res.Status)
	}()
	synctest.Wait()
}

func TestStopInOrder(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s := runMachine(t, func(_ http.ResponseWriter, r *http.Request) {
			<-release
			if r.Context().Err() != nil {
				t.Error("the context of a request ended while the server drained")
			}
		})
		s.get()
		s.stop()
		s.want(t, "streams closed") // the worker continues, because the request may need it
		s.get()
		s.want(t, "streams closed", "request failed")
		time.Sleep(drainTimeout / 2)
		close(release)
		time.Sleep(time.Second) // net/http looks twice a second whether requests have ended
		s.want(t, "streams closed", "request failed", "200 OK", "worker stopped", "ended")
		if err := <-s.ended; err != nil {
			t.Errorf("a clean stop returned %v", err)
		}
	})
}

func TestStopCutsOffSlowRequests(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := runMachine(t, func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			time.Sleep(time.Second) // while it cleans up, it may still use everything
		})
		s.get()
		s.stop()
		time.Sleep(drainTimeout - 1)
		s.want(t, "streams closed")
		time.Sleep(time.Nanosecond)
		s.want(t, "streams closed", "request failed")
		time.Sleep(time.Second)
		s.want(t, "streams closed", "request failed", "worker stopped", "ended")
		if err := <-s.ended; err != nil {
			t.Errorf("returned %v", err)
		}
	})
}

func TestFailureStopsAll(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	t.Run("worker", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			s := runMachine(t, func(http.ResponseWriter, *http.Request) {}, func(ctx context.Context) error {
				select {
				case <-time.After(time.Minute):
					return broken
				case <-ctx.Done():
					return nil
				}
			})
			s.get()
			time.Sleep(time.Minute)
			s.want(t, "200 OK", "streams closed", "worker stopped", "ended")
			if err := <-s.ended; !errors.Is(err, broken) {
				t.Errorf("returned %v", err)
			}
		})
	})
	t.Run("listener", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := runMachine(t, func(http.ResponseWriter, *http.Request) {})
			_ = s.ln.Close()
			s.want(t, "streams closed", "worker stopped", "ended")
			if err := <-s.ended; err == nil {
				t.Error("returned nil")
			}
		})
	})
	t.Run("worker that fails while stopping", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			broken := errors.New("broken")
			s := runMachine(t, func(http.ResponseWriter, *http.Request) {}, func(ctx context.Context) error {
				<-ctx.Done()
				return broken
			})
			s.stop()
			s.want(t, "streams closed", "worker stopped", "ended")
			if err := <-s.ended; !errors.Is(err, broken) {
				t.Errorf("returned %v", err)
			}
		})
	})
}
