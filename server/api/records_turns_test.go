package api

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/chain"
	"attestd/internal/testenv"
	"attestd/server/jobs"
	"attestd/server/limit"
)

// slow is a Reader whose reads each take some time and find an equal amount.
type slow struct{ bytes int }

const readTakes = 3 * time.Millisecond

func (r slow) Records(_ context.Context, _, from, _ int64, yield func(*chain.Record) error) error {
	time.Sleep(readTakes)
	return yield(&chain.Record{Index: from, Payload: make([]byte, r.bytes)})
}

func (r slow) RecordsBackward(ctx context.Context, number, _, to int64, yield func(*chain.Record) error) error {
	return r.Records(ctx, number, to-1, to, yield)
}

func (r slow) Summaries(_ context.Context, _, from, _ int64, _ bool, yield func(int64, []byte) error) error {
	time.Sleep(readTakes)
	return yield(from, make([]byte, r.bytes))
}

// Whatever it asks for and whatever it reads, a search that has read much waits for its turn, and
// rests as long as it works while records are appended.
func TestLongSearchYieldsToOthers(t *testing.T) {
	testenv.Concurrent(t)
	reads := map[string]func(t *turns) error{
		"records": func(t *turns) error {
			return t.Records(context.Background(), 1, 0, 9, func(*chain.Record) error { return nil })
		},
		"records backward": func(t *turns) error {
			return t.RecordsBackward(context.Background(), 1, 0, 9, func(*chain.Record) error { return nil })
		},
		"summaries": func(t *turns) error {
			return t.Summaries(context.Background(), 1, 0, 9, true, func(int64, []byte) error { return nil })
		},
	}
	for what, read := range reads {
		for _, long := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &Searches{Long: semaphore.NewWeighted(1), Appends: new(jobs.Pace)}
				took := func(r *turns) time.Duration {
					begun := time.Now()
					if err := read(r); err != nil {
						t.Error(err)
					}
					return time.Since(begun)
				}
				first := &turns{Reader: slow{atOnce / 2}, s: s, long: long}
				_ = s.Long.Acquire(t.Context(), 1) // another's turn
				time.AfterFunc(time.Second, func() { s.Long.Release(1) })
				for i, waits := range []bool{long, false, !long} {
					if d := took(first); (d > 900*time.Millisecond) != waits {
						t.Errorf("%s, long %v: read %d took %v; it waits: %v", what, long, i, d, waits)
					}
				}
				s.Appends.Appended(1000, time.Now())
				if d := took(first); d != 2*readTakes {
					t.Errorf("%s, long %v: %v beside appends, want %v", what, long, d, 2*readTakes)
				}
			})
		}
	}
}

// Who goes away while he waits for his turn has not read.
func TestSearchTurnCanceled(t *testing.T) {
	testenv.Concurrent(t)
	s := &Searches{Long: semaphore.NewWeighted(1), Appends: new(jobs.Pace)}
	_ = s.Long.Acquire(t.Context(), 1)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	r := &turns{Reader: slow{1}, s: s, long: true}
	if err := r.Records(gone, 1, 0, 1, func(*chain.Record) error { t.Error("read"); return nil }); err == nil {
		t.Error("no error")
	}
}

// Searches that companies have under way and do not end leave room for the first of each other
// company.
func TestSearchesAreFairAcrossCompanies(t *testing.T) {
	testenv.Concurrent(t)
	s := &Searches{Pool: limit.NewPool(limit.Searches(48))} // 6 for each company, 24 reserved
	begins := func(company, parts int64) func() {
		t.Helper()
		done, err := s.beginSearch(company, parts)
		if err != nil {
			t.Fatalf("a search of company %d: %v", company, err)
		}
		return done
	}
	refused := func(company, parts int64) {
		t.Helper()
		if _, err := s.beginSearch(company, parts); err == nil {
			t.Errorf("one search more of company %d was begun", company)
		}
	}
	for company := int64(1); company <= 4; company++ {
		defer begins(company, 1)()
		defer begins(company, 5)()
		refused(company, 1) // over its share
	}
	one := begins(5, 1)
	refused(5, 1) // it has one, and the rest is reserved
	one()
	for company := int64(5); company <= 8; company++ {
		defer begins(company, limit.LongSearch)()
	}
	refused(9, 1) // nothing is left
}
