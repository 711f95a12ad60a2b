package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/store"
)

// queueSize is the default.
var queueSize = limit.Defaults(0).Verifications

// slowVerifications take a second of the bubble's clock each. They record when they began, by
// chain, and answer with that time.
type slowVerifications struct {
	*Verifications
	start time.Time

	mu        sync.Mutex
	begun     map[int64][]time.Duration
	cancelled int
}

func newSlowVerifications() *slowVerifications {
	s := &slowVerifications{start: time.Now(), begun: make(map[int64][]time.Duration)}
	s.Verifications = NewVerifications(queueSize, func(ctx context.Context, l store.Log) (chain.Verdict, error) {
		began := time.Since(s.start)
		s.mu.Lock()
		s.begun[l.Chain] = append(s.begun[l.Chain], began)
		s.mu.Unlock()
		select {
		case <-time.After(time.Second):
			return chain.Verdict{Valid: true, Length: int64(began)}, nil
		case <-ctx.Done():
			s.mu.Lock()
			s.cancelled++
			s.mu.Unlock()
			return chain.Verdict{}, ctx.Err()
		}
	})
	return s
}

// begins waits until nothing moves and returns when the verifications of a chain began.
func (s *slowVerifications) begins(number int64) []time.Duration {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun[number])
}

func (s *slowVerifications) isEmpty() bool {
	s.Verifications.mu.Lock()
	defer s.Verifications.mu.Unlock()
	held, _ := s.Requests.Use()
	return len(s.companies) == 0 && held == 0
}

// verify asks for the actions of a company.
func (s *slowVerifications) verify(ctx context.Context, number int64) (chain.Verdict, error) {
	return s.Verifications.verify(ctx, &store.Company{Chain: number}, store.Log{Name: store.Actions, Chain: number})
}

// Many requests for one chain cost two verifications and delay no other request. No answer is about
// a state older than its request.
func TestVerificationsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowVerifications()
		var all sync.WaitGroup
		ask := func(number int64, within time.Duration) {
			asked := time.Since(s.start)
			all.Go(func() {
				v, err := s.verify(t.Context(), number)
				if took := time.Since(s.start) - asked; err != nil || !v.Valid || v.Length < int64(asked) || took > within {
					t.Errorf("asked at %v: %+v, %v after %v", asked, v, err, took)
				}
			})
		}
		for range 100 {
			ask(1, 2*time.Second)
		}
		time.Sleep(100 * time.Millisecond)
		ask(2, time.Second)
		ask(1, 1900*time.Millisecond)
		all.Wait()
		if got := s.begins(1); len(got) != 2 || got[1] != time.Second {
			t.Errorf("chain 1 was verified at %v", got)
		}
		if !s.isEmpty() {
			t.Error("something is remembered of requests that are answered")
		}
	})
}

// The logs of a company take turns: what is asked of one is never answered by the other, and asking
// for both brings no company more turns.
func TestVerificationsOfBothLogs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowVerifications()
		var all sync.WaitGroup
		for range 20 {
			for _, l := range []store.Log{{Name: store.Actions, Chain: 1}, {Name: store.Control, Chain: -1}} {
				all.Go(func() {
					if v, err := s.Verifications.verify(t.Context(), &store.Company{Chain: 1}, l); err != nil || !v.Valid {
						t.Errorf("%+v, %v", v, err)
					}
				})
			}
		}
		all.Wait()
		begun := append(s.begins(1), s.begins(-1)...)
		slices.Sort(begun)
		for i, at := range begun {
			if at != time.Duration(i)*time.Second {
				t.Errorf("verified at %v", begun)
			}
		}
		if len(begun) < 2 || len(begun) > 4 || len(s.begins(-1)) == 0 || !s.isEmpty() {
			t.Errorf("verified at %v", begun)
		}
	})
}

// A verification continues while any request waits for it, even if the request that started it has
// gone. It ends when no request waits.
func TestVerificationsOutliveTheirFirstRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowVerifications()
		var all sync.WaitGroup
		leaving, leave := context.WithCancel(t.Context())
		running, stop := context.WithCancel(t.Context())
		all.Go(func() { s.verify(running, 1) }) // so that the next two wait for one verification
		synctest.Wait()
		for _, ctx := range []context.Context{leaving, t.Context()} {
			all.Go(func() {
				v, err := s.verify(ctx, 1)
				if ctx == t.Context() && (err != nil || v.Length != int64(time.Second)) {
					t.Errorf("who stayed: %+v, %v", v, err)
				}
			})
			synctest.Wait()
		}
		time.Sleep(1500 * time.Millisecond) // the second is under way
		leave()
		stop()
		all.Wait()
		if got := s.begins(1); len(got) != 2 || s.cancelled != 0 {
			t.Errorf("verified at %v, %d cancelled", got, s.cancelled)
		}

		alone, leave := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := s.verify(alone, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		waiting, leaveToo := context.WithCancel(t.Context())
		all.Go(func() { s.verify(waiting, 1) })
		synctest.Wait()
		leaveToo()
		leave()
		all.Wait()
		if got := s.begins(1); len(got) != 3 || s.cancelled != 1 {
			t.Errorf("verified at %v, %d cancelled", got, s.cancelled)
		}
		if v, err := s.verify(t.Context(), 1); err != nil || !v.Valid || !s.isEmpty() {
			t.Errorf("the next one: %+v, %v", v, err)
		}
	})
}

// The queue is bounded for each company and in all, and what all others have filled is still open
// to a company with none in it.
func TestVerificationsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlowVerifications()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		fill := func(number int64, n int) {
			for range n {
				all.Go(func() { s.verify(ctx, number) })
			}
			synctest.Wait()
		}
		refused := func(number int64) bool {
			t.Helper()
			already, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := s.verify(already, number)
			if !errors.Is(err, limit.ErrFull) {
				return false
			}
			if e := httpapi.Classify(err); e.Status != http.StatusServiceUnavailable || e.Header.Get("Retry-After") == "" {
				t.Errorf("refused with %+v", e)
			}
			return true
		}
		fill(1, int(queueSize.Share))
		if !refused(1) || refused(2) {
			t.Error("what is full for one company is not full for another")
		}
		open := queueSize.Most - queueSize.Reserved // to companies that have some waiting
		for n := range open/queueSize.Share - 1 {
			fill(n+2, int(queueSize.Share))
		}
		fill(100, 1)
		if refused(101) || !refused(100) {
			t.Error("a full queue is open to a company with none in it, and to no other")
		}
		for n := range queueSize.Reserved - 1 {
			fill(200+n, 1)
		}
		if !refused(101) {
			t.Error("the queue has no end")
		}
		cancel()
		all.Wait()
		if refused(101) || !s.isEmpty() {
			t.Error("not empty after all have left")
		}
	})
}

// A panic is one company's verification that failed, and no more.
func TestVerificationPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		panics := true
		v := NewVerifications(queueSize, func(context.Context, store.Log) (chain.Verdict, error) {
			time.Sleep(time.Second)
			if panics {
				panics = false
				panic("of a test")
			}
			return chain.Verdict{Valid: true}, nil
		})
		var all sync.WaitGroup
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			v.verify(t.Context(), &store.Company{Chain: 1}, store.Log{Chain: 1})
		})
		synctest.Wait()
		for range 2 {
			all.Go(func() {
				if verdict, err := v.verify(t.Context(), &store.Company{Chain: 1}, store.Log{Chain: 1}); err != nil || !verdict.Valid {
					t.Errorf("%+v, %v", verdict, err)
				}
			})
		}
		all.Wait()
	})
}
