package limit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Bodies that exceed a pool are decoded in turns, those with a credential apart from those without.
// No request waits for ever.
func TestDecodingGoesInTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(Size{Most: 100, Share: 60, Reserved: 40})
		d := NewDecoding(pool)
		stranger, known := Holder{Address: address(1)}, Holder{Company: 1, Known: true}
		take := func(n int64, h Holder) func() {
			t.Helper()
			release, err := d.Acquire(t.Context(), n, h)
			if err != nil {
				t.Fatal(err)
			}
			return release
		}
		inPool := take(50, known)
		pool.wantUse(t, 50)
		ofStranger := take(20, stranger) // over the share of unauthenticated callers
		ofKnown := take(1000, known)     // over all
		pool.wantUse(t, 50)

		took := make(chan error)
		for _, h := range []Holder{stranger, known} {
			go func() {
				release, err := d.Acquire(t.Context(), 500, h)
				took <- err
				if err == nil {
					release()
				}
			}()
		}
		synctest.Wait()
		select {
		case err := <-took:
			t.Fatalf("two went on at once: %v", err)
		default:
		}
		ofKnown()
		ofStranger()
		for range 2 {
			if err := <-took; err != nil {
				t.Error(err)
			}
		}

		last := take(1000, known)
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := d.Acquire(gone, 1000, known); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
		start := time.Now()
		if _, err := d.Acquire(t.Context(), 1000, known); !errors.Is(err, ErrFull) || time.Since(start) != turnWait {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		last()
		inPool()
		pool.wantUse(t, 0)
	})
}

// Room is what the credential and its company may still have, and counts nothing.
func TestRoom(t *testing.T) {
	t.Parallel()
	l := NewLimiter(Limits{Standard: 10, Sensitive: 10, Attest: 5, Log: 10, Company: 2})
	now := time.Now()
	call := func(credential byte, items int) Call {
		return Call{Tier: Attest, Items: items, Credential: [32]byte{credential}, Company: 1}
	}
	want := func(credential byte, after time.Duration, n int) {
		t.Helper()
		for range 2 {
			if got := l.Room(call(credential, 0), now.Add(after)); got != n {
				t.Errorf("room for %d, want %d", got, n)
			}
		}
	}
	want(1, 0, 5)
	l.Take(call(1, 3), now)
	want(1, 0, 2)
	want(2, 0, 5)
	l.Take(call(2, 5), now)
	want(3, 0, 2)
	want(2, 0, 0)
	want(2, window+time.Second, 5)
	if got := NewLimiter(Limits{}).Room(call(1, 0), now); got < 1<<30 {
		t.Errorf("without limits there is room for %d", got)
	}
}
