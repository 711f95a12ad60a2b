package keysets

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// counted is an issuer that counts how many fetches run at once.
type counted struct {
	*issuer
	running, most atomic.Int64
}

func (c *counted) Get(ctx context.Context, url string) (Document, error) {
	defer c.running.Add(-1)
	for n := c.running.Add(1); ; {
		if most := c.most.Load(); n <= most || c.most.CompareAndSwap(most, n) {
			return c.issuer.Get(ctx, url)
		}
	}
}

func named(sets int) (wanted []Named) {
	for n := range sets {
		wanted = append(wanted, Named{int64(n % 10), Source{URL: fmt.Sprint("https://i.example/", n)}})
	}
	return wanted
}

// Each set is fetched once, a few at a time, and then a request finds it there.
func TestWarmSetsAreThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &counted{issuer: &issuer{body: document(t, "k1"), fresh: time.Hour}}
		s := New(from)
		defer s.Close()
		wanted := named(50)
		began := time.Now()
		s.Warm(t.Context(), append(wanted, wanted...))
		if asked, most, took := from.asked.Load(), from.most.Load(), time.Since(began); asked != 50 || most > warmers || took > warmWithin+2*time.Second {
			t.Errorf("%d fetches for 50 sets, %d at once, in %v", asked, most, took)
		}
		began = time.Now()
		for _, w := range wanted {
			if set, err := get(t.Context(), s, w.Company, w.Source, anyKey); err != nil || set.Len() != 1 {
				t.Fatalf("%+v: %v", w, err)
			}
		}
		if asked := from.asked.Load(); asked != 50 || !time.Now().Equal(began) {
			t.Errorf("%d more fetches for requests, which waited %v", asked-50, time.Since(began))
		}
	})
}

// An issuer that hangs holds up neither a request for another set, nor the end. One that fails is
// asked again by the first request, at once.
func TestWarmTakesNothingFromRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{hang: true}
		s := New(from)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan time.Time, 1)
		go func() {
			s.Warm(ctx, named(100))
			ended <- time.Now()
		}()
		time.Sleep(warmWithin + timeout)
		from.set(func() { from.hang, from.body, from.fresh = false, document(t, "k1"), time.Hour })
		if set, err := ask(t, s, 100*time.Millisecond); err != nil || set.Len() != 1 {
			t.Errorf("another set, beside: %v", err)
		}
		from.set(func() { from.hang = true })
		time.Sleep(time.Second)
		began := time.Now()
		cancel()
		if at := <-ended; !at.Equal(began) {
			t.Errorf("ended %v after its context", at.Sub(began))
		}
		s.Close()
		s.Warm(t.Context(), named(100)) // which starts nothing after Close
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		from := &issuer{err: errors.New("the answer has the status 503, not 200")}
		s := New(from)
		defer s.Close()
		s.Warm(t.Context(), []Named{{1, source}})
		if state := s.State(1, source); state.Failure == "" || from.asked.Load() != 1 {
			t.Errorf("%+v after %d fetches", state, from.asked.Load())
		}
		from.set(func() { from.err, from.body, from.fresh = nil, document(t, "k1"), time.Hour })
		if set, err := ask(t, s, 100*time.Millisecond); err != nil || set.Len() != 1 || from.asked.Load() != 2 {
			t.Errorf("the first request after a failure: %v, %d fetches", err, from.asked.Load())
		}
	})
}
