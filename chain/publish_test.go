package chain_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"attestd/chain"
	"attestd/internal/testenv"
)

// publish is called for every commit, in order, before the waiter returns.
func TestPublish(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2)
	var mu sync.Mutex
	published := map[int64][]chain.Record{}
	l := chain.NewLog(d)
	stop := runWith(t, l, func(batch []chain.Extension, external bool) {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range batch {
			if e.From.Length != int64(len(published[e.Chain])) || e.Head.Length != e.From.Length+int64(len(e.Records)) {
				t.Errorf("published from %d to %d after %d", e.From.Length, e.Head.Length, len(published[e.Chain]))
			}
			published[e.Chain] = append(published[e.Chain], e.Records...)
		}
		if external {
			t.Error("an external write that was none")
		}
	})
	defer stop()
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 20 {
				c := int64(1 + g%2)
				r, err := l.Append(t.Context(), draft(c, i))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if int64(len(published[c])) <= r.Index || published[c][r.Index].Hash != r.Hash {
					t.Errorf("record %d was acknowledged before it was published", r.Index)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
}

// After a write by another process, the log continues from the stored heads and reports the write
// once.
func TestExternalWrite(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2)
	var published []string
	l := chain.NewLog(d)
	stop := runWith(t, l, func(batch []chain.Extension, external bool) {
		published = append(published, fmt.Sprintf("%d+%d %v", batch[0].From.Length, len(batch[0].Records), external))
	})
	appendAll(t, l, 1, 0, 3)
	appendAll(t, l, 2, 0, 1)

	grow(t, d, 1, 3, 5) // another process appends to chain 1
	d.tamper(1, func(*stored) {})
	appendAll(t, l, 1, 5, 7)
	heads := d.steps["head"]
	appendAll(t, l, 2, 1, 2)
	if d.steps["head"] != heads+1 {
		t.Error("the cached head of another chain outlived the external write")
	}
	stop()
	want := []string{"0+1 false", "1+1 false", "2+1 false", "0+1 false", "5+1 true", "6+1 false", "1+1 false"}
	if !slices.Equal(published, want) {
		t.Errorf("published %q, want %q", published, want)
	}
	if v := verify(t, d, 1); !v.Valid || v.Length != 7 {
		t.Errorf("chain 1: %+v", v)
	}
}

// The cache of heads is bounded.
func TestManyChains(t *testing.T) {
	testenv.Needs(t, testenv.Slow, testenv.NotRaced)
	t.Parallel()
	const chains = 18_000
	d := newDisk()
	for c := range int64(chains) {
		d.chains[c] = newDisk(c).chains[c]
	}
	l := chain.NewLog(d)
	stop := run(t, l)
	for range 2 {
		var all sync.WaitGroup
		for c := range int64(chains) {
			all.Go(func() {
				if _, err := l.Append(t.Context(), draft(c, 0)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	stop()
	if reads := d.steps["head"]; reads <= chains || reads >= 2*chains {
		t.Errorf("%d heads read for %d chains twice: the cache is not bounded, or no cache", reads, chains)
	}
	for c := range int64(chains) {
		if n := d.chains[c].head.Length; n != 2 {
			t.Fatalf("chain %d has %d records", c, n)
		}
	}
}
