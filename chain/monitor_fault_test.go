package chain_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"
)

// If the deliverer blocks and commits exceed the memory limit, the rest is read back from disk. No
// event is lost or out of order.
func TestMonitorOverflow(t *testing.T) {
	for name, c := range map[string]struct {
		gone     int // this row vanishes from disk before it is read back
		failedAt int64
	}{
		"all there":  {-1, valid},
		"a row gone": {390, 390},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1, 2)
				w := watch(t, d)
				appendAll(t, w.Log, 1, 0, 1)
				appendAll(t, w.Log, 2, 0, 1)
				w.events()
				w.mu.Lock()
				w.pause = make(chan struct{})
				w.mu.Unlock()
				large := []byte(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`)
				for i := 1; i < 400; i++ {
					if _, err := w.Append(t.Context(), chain.Draft{Chain: 1, Payload: large, Canonical: large}); err != nil {
						t.Fatal(err)
					}
				}
				appendAll(t, w.Log, 2, 1, 5)
				synctest.Wait()
				reads := d.count("records")
				if c.gone >= 0 {
					d.mu.Lock() // not noticed as an external write
					s := d.chains[1]
					s.rows = slices.Delete(slices.Clone(s.rows), c.gone, c.gone+1)
					d.mu.Unlock()
				}
				close(w.pause)
				byChain := map[int64][]chain.Event{}
				for _, e := range w.events() {
					byChain[e.Chain] = append(byChain[e.Chain], e)
				}
				w.want(t, byChain[2], 2, 1, 5, valid)
				if d.count("records") == reads {
					t.Error("nothing was read back: memory is not bounded")
				}
				if c.gone < 0 {
					w.want(t, byChain[1], 1, 1, 400, valid)
					return
				}
				indices := make([]int64, 0, 400)
				for _, e := range byChain[1] {
					indices = append(indices, e.Record.Index)
					if after := e.Record.Index >= c.failedAt; e.Verdict.Valid == after || after && e.Verdict.FailedAt != c.failedAt {
						t.Fatalf("record %d: %+v", e.Record.Index, e.Verdict)
					}
				}
				if len(indices) != 398 || !slices.IsSorted(indices) || slices.Contains(indices, int64(c.gone)) {
					t.Errorf("delivered %d records: %v", len(indices), indices)
				}
			})
		})
	}
}

// Read errors are retried each second, and no event is lost.
func TestMonitorReadErrors(t *testing.T) {
	for _, step := range []string{"keys", "tip", "records", "hashes"} {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1)
				grow(t, d, 1, 0, 300)
				w := watch(t, d)
				left := 3
				d.setFault(func(s string, _ int64) error {
					if s == step && left > 0 {
						left--
						return errDisk
					}
					return nil
				})
				appendAll(t, w.Log, 1, 300, 310)
				w.want(t, w.events(), 1, 0, 0, valid)
				time.Sleep(5 * time.Second)
				w.want(t, w.events(), 1, 300, 310, valid)
			})
		})
	}
}

// A chain whose head or company is missing on disk is delivered as not valid. Other chains are not
// affected.
func TestMonitorMissingChain(t *testing.T) {
	for _, gone := range []string{"keys", "tip"} {
		t.Run(gone, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1, 2)
				w := watch(t, d)
				d.setFault(func(s string, c int64) error {
					if s == gone && c == 1 {
						return fmt.Errorf("taken away: %w", chain.ErrMissing)
					}
					return nil
				})
				appendAll(t, w.Log, 1, 0, 3)
				w.want(t, w.events(), 1, 0, 3, 0)
				appendAll(t, w.Log, 2, 0, 3)
				w.want(t, w.events(), 2, 0, 3, valid)
			})
		})
	}
}

// After an error while reading back, the rest is delivered later, without duplicates.
func TestMonitorReadBackFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		slow := make(chan struct{})
		var tips, reads atomic.Int64 // also counted while this test looks
		d.setFault(func(s string, _ int64) error {
			switch s {
			case "tip":
				if tips.Add(1) == 1 {
					<-slow
				}
			case "records":
				// the verification has taken 7, the first read-back is the 8th
				if reads.Add(1) == 9 {
					return errDisk
				}
			}
			return nil
		})
		appendAll(t, w.Log, 1, 0, 800)
		synctest.Wait()
		close(slow)
		synctest.Wait()
		if reads.Load() < 9 {
			t.Fatalf("only %d reads", reads.Load())
		}
		time.Sleep(5 * time.Second)
		w.want(t, w.events(), 1, 0, 800, valid)
	})
}

// If pending rows are deleted from disk, the remaining ones are delivered as failed.
func TestMonitorCommittedRecordsVanish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 20)
		w := watch(t, d)
		slow := make(chan struct{})
		d.setFault(func(s string, _ int64) error {
			if s == "tip" {
				<-slow
			}
			return nil
		})
		appendAll(t, w.Log, 1, 20, 30)
		before := d.row(1, 20)
		synctest.Wait()
		d.mu.Lock()
		d.chains[1].rows = d.chains[1].rows[:21]
		d.mu.Unlock()
		close(slow)
		events := w.events()
		if len(events) != 1 || events[0].Record.Hash != before.Hash || events[0].Verdict.Valid || events[0].Verdict.FailedAt != 21 {
			t.Errorf("delivered %+v", events)
		}
	})
}

// After the file is replaced with an older copy, the chain continues from its head.
func TestMonitorRollback(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 10)
		old := d.clone().chains[1]
		appendAll(t, w.Log, 1, 10, 20)
		w.want(t, w.events(), 1, 0, 20, valid)
		d.mu.Lock()
		d.chains[1], d.external = old, true
		d.mu.Unlock()
		appendAll(t, w.Log, 1, 20, 23)
		w.want(t, w.events(), 1, 10, 13, valid)
	})
}

// If a commit with unknown outcome was successful, the next events cover the whole chain including
// it.
func TestMonitorUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 5)
		w.want(t, w.events(), 1, 0, 5, valid)
		d.setFault(fail(2, "committed", errDisk))
		for range 2 {
			if _, err := w.Append(t.Context(), draft(1, 5)); err == nil {
				t.Fatal("no error")
			}
		}
		appendAll(t, w.Log, 1, 7, 10)
		w.want(t, w.events(), 1, 7, 10, valid)
	})
}

// With more chains than cached states, all events are delivered.
func TestMonitorManyChains(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	bubble(t, func(t *testing.T) {
		const chains = 4500
		d := newDisk()
		for c := range int64(chains) {
			d.chains[c] = newDisk(c).chains[c]
		}
		w := watch(t, d)
		for round := range 2 {
			for c := range int64(chains) {
				go w.Append(context.Background(), draft(c, round))
			}
			seen := map[int64]bool{}
			for _, e := range w.events() {
				if seen[e.Chain] || e.Record.Index != int64(round) || !e.Verdict.Valid {
					t.Fatalf("chain %d: %+v", e.Chain, e)
				}
				seen[e.Chain] = true
			}
			if len(seen) != chains {
				t.Fatalf("round %d: %d chains delivered", round, len(seen))
			}
		}
		if tips := d.count("tip"); tips <= chains || tips >= 2*chains {
			t.Errorf("%d verifications of %d chains twice: states are not bounded, or not cached", tips, chains)
		}
	})
}

// Under load, each chain's events are all its records, in order and without duplicates.
func TestMonitorUnderLoad(t *testing.T) {
	t.Parallel()
	d := newDisk(0, 1, 2, 3)
	w := watch(t, d)
	const each = 400
	var appended atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range each / 2 {
				if _, err := w.Append(t.Context(), draft(int64(g%4), i)); err != nil {
					t.Error(err)
				}
				if appended.Add(1)%97 == 0 {
					d.tamper(0, func(*stored) {}) // an external write that changes nothing
				}
			}
		})
	}
	all.Wait()
	next := map[int64]int64{}
	trees := make([]reference, 4)
	deadline := time.After(20 * time.Second)
	for delivered := 0; delivered < 4*each; {
		select {
		case <-deadline:
			t.Fatalf("delivered %v of %d each", next, each)
		case <-time.After(time.Millisecond):
		}
		w.mu.Lock()
		events := w.delivered
		w.delivered = nil
		w.mu.Unlock()
		for _, e := range events {
			trees[e.Chain].add(e.Record.Hash)
			if e.Record.Index != next[e.Chain] || !e.Verdict.Valid || e.Verdict.Root != trees[e.Chain].root() {
				t.Fatalf("chain %d: record %d after %d: %+v", e.Chain, e.Record.Index, next[e.Chain], e.Verdict)
			}
			next[e.Chain]++
		}
		delivered += len(events)
	}
	if fmt.Sprint(next) != fmt.Sprint(map[int64]int64{0: each, 1: each, 2: each, 3: each}) {
		t.Errorf("delivered %v", next)
	}
}
