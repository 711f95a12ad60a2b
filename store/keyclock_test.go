package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// clocks are a wall clock and a monotonic clock. Its times have readings of both, as those of the
// process have.
type clocks struct {
	mu     sync.Mutex
	wall   time.Time
	steady time.Duration
}

func (c *clocks) pass(wall, steady time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.steady = c.wall.Add(wall), c.steady+steady
}

func (c *clocks) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return testenv.ReadClocks(c.wall, c.steady)
}

func (c *clocks) options() store.RunOptions {
	return store.RunOptions{Now: c.now, Steady: func() time.Duration {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.steady
	}}
}

// retrier has thirty idempotency keys of each of two companies.
type retrier struct {
	*store.Store
	at        *clocks
	companies [2]*store.Company
	swept     int
}

func newRetrier(t *testing.T, path string) *retrier {
	at := &clocks{wall: now}
	r := &retrier{Store: openWith(t, path, at.options()), at: at}
	for i, id := range []string{"acme", "zoo"} {
		r.companies[i], _ = company(t, r.Store, id)
	}
	r.retry(t, "first", false)
	return r
}

// retry repeats the requests of all keys.
func (r *retrier) retry(t *testing.T, what string, want bool) {
	t.Helper()
	for i := range 30 {
		for _, c := range r.companies {
			key := fmt.Sprint("k", i)
			if _, err := recordOf(r.Store, by(c, r.at.now()), key, "a"); want != (err == nil) || err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: key %d is read: %v", what, i, err)
			}
			if a := got(once(t, r.Store, keyed(c, key, "a")))(t); a.Replayed != want {
				t.Errorf("%s: the retry under key %d is replayed: %v", what, i, a.Replayed)
			}
		}
	}
}

// sweep adds so many keys that expired ones are looked for in the whole table.
func (r *retrier) sweep(t *testing.T) {
	t.Helper()
	var drafts []chain.Draft
	for range 400 {
		r.swept++
		drafts = append(drafts, keyed(r.companies[1], fmt.Sprint("other ", r.swept), ""))
	}
	got(r.AppendAll(ctx, drafts))(t)
	got(r.AppendAll(ctx, drafts[:1]))(t)
}

// A wall clock that leaps ahead expires no idempotency key: every retry is found and no key is
// deleted. Keys expire as usual once the clock is right again or has stayed ahead for a day.
func TestIdempotencyKeysSurviveClockJump(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	const day = 24 * time.Hour
	r := newRetrier(t, storetest.New(t))
	r.at.pass(time.Hour, time.Hour)
	r.retry(t, "an hour later", true)

	r.at.pass(400*day, time.Second)
	r.retry(t, "after the leap", true)
	r.sweep(t)
	r.at.pass(23*time.Hour, 23*time.Hour)
	r.sweep(t)
	r.retry(t, "a day after the leap", true)
	r.at.pass(-400*day, time.Second)
	r.sweep(t)
	r.retry(t, "with the clock right again", true)

	r.at.pass(400*day, time.Second)
	r.retry(t, "after another leap", true)
	r.at.pass(25*time.Hour, 25*time.Hour)
	r.retry(t, "more than a day after it", false)
	r.retry(t, "again", true)
	must.OK(t, r.VerifyAll(ctx, "", 1, nil, nil))
}

// A clock that is wrong at the start of a server is detected by the times in the database.
func TestIdempotencyKeysSurviveStartWithWrongClock(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	path := storetest.New(t)
	r := newRetrier(t, path)
	must.OK(t, r.Close())
	r.at.pass(90*24*time.Hour, 0)
	r.Store = openWith(t, path, r.at.options())
	r.retry(t, "after the start", true)
	r.at.pass(23*time.Hour, 23*time.Hour)
	r.retry(t, "almost a day later", true)
	r.at.pass(2*time.Hour, 2*time.Hour)
	r.retry(t, "more than a day later", false)
	must.OK(t, r.Close())

	r.at.pass(90*24*time.Hour, 0)
	o := r.at.options()
	o.AcceptClock = true
	r.Store = openWith(t, path, o)
	must.OK(t, r.Ready(ctx)) // wait until the server runs
	r.retry(t, "where somebody vouches for the clock", false)
}

// An idempotency key is valid for thirty days and is then free, however often the server restarts
// meanwhile.
func TestKeysExpireOverRestarts(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	const day = 24 * time.Hour
	path := storetest.New(t)
	at := &clocks{wall: now}
	s := openWith(t, path, at.options())
	acme, _ := company(t, s, "acme")
	got(once(t, s, keyed(acme, "k", "a")))(t)
	for range 29 {
		must.OK(t, s.Close())
		at.pass(day, 0)
		s = openWith(t, path, at.options())
		got(once(t, s, draft(acme)))(t)
	}
	if a := got(once(t, s, keyed(acme, "k", "a")))(t); !a.Replayed {
		t.Error("a key was forgotten in time")
	}
	must.OK(t, s.Close())
	at.pass(2*day, 0)
	s = openWith(t, path, at.options())
	got(once(t, s, draft(acme)))(t)
	must.OK(t, s.Close())
	s = openWith(t, path, at.options())
	if a := got(once(t, s, keyed(acme, "k", "a")))(t); a.Replayed {
		t.Error("a key counts after its time")
	}
}
