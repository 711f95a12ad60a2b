package store_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// A server whose clock is ten years or more ahead of the newest time in the file writes nothing,
// because times in a chain never go back. It continues when the clock is right again, or after a
// start that confirms the clock. An empty file accepts any time.
func TestClockTenYearsAheadStopsWrites(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	path := storetest.New(t)
	var clock atomic.Pointer[time.Time]
	set := func(at time.Time) {
		at = testenv.ReadClocks(at, time.Hour) // the monotonic clock does not leap
		clock.Store(&at)
	}
	o := store.RunOptions{Now: func() time.Time { return *clock.Load() }}
	in := func(years int) time.Time { return now.AddDate(years, 0, 0) }

	set(in(-40))
	s := openWith(t, path, o)
	c, _, err := s.Companies.Create(ctx, "acme", nil, in(-40))
	must.OK(t, err)
	append := func(want error) {
		t.Helper()
		if _, err := s.Append(ctx, draft(c)); !errors.Is(err, want) {
			t.Errorf("append at %v: %v", *clock.Load(), err)
		}
		if _, err := s.Credentials.CreateKey(ctx, by(c, *clock.Load()), nil, full, 1000); !errors.Is(err, want) {
			t.Errorf("another write at %v: %v", *clock.Load(), err)
		}
	}
	set(in(-30)) // ten years after the registration
	append(store.ErrClock)
	set(in(-30).Add(-time.Millisecond))
	append(nil)
	set(in(0))
	append(store.ErrClock)
	if n := length(t, s, c); n != 1 {
		t.Errorf("%d records can be read", n)
	}
	must.OK(t, s.Close())

	s = openWith(t, path, o) // the newest time is stored in the file
	append(store.ErrClock)
	set(in(-25))
	append(nil)
	must.OK(t, s.Close())

	set(in(0))
	s = openWith(t, path, store.RunOptions{Now: o.Now, AcceptClock: true})
	append(nil)
	set(in(10)) // the confirmation covers only the time at the start
	append(store.ErrClock)
	set(in(-50))
	append(nil)
	must.OK(t, s.Close())

	set(in(9))
	s = openWith(t, path, o)
	append(nil)
	records := read(t, s, c.Chain, 0, 9)
	if len(records) != 5 || records[3].Timestamp != records[2].Timestamp || records[4].Timestamp[:4] != in(9).Format("2006") {
		t.Errorf("records: %v", records)
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}
