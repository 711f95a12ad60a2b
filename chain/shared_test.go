package chain_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// Several logs extend the same chains in one storage. Each record has its own index, and every
// chain verifies.
func TestSeveralLogsExtendOneChain(t *testing.T) {
	t.Parallel()
	const callers, each = 12, 30
	d := newDisk(1, 2)
	d.shared = true
	logs := []*chain.Log{chain.NewLog(d), chain.NewLog(d), chain.NewLog(d)}
	for _, l := range logs {
		defer run(t, l)()
	}
	var mu sync.Mutex
	places := map[int64]map[int64]bool{1: {}, 2: {}}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range each {
				c := int64(1 + i%2)
				r, err := logs[caller%len(logs)].Append(t.Context(), draft(c, caller*each+i))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				places[c][r.Index] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for c, taken := range places {
		if v := verify(t, d, c); !v.Valid || v.Length != callers*each/2 || len(taken) != callers*each/2 {
			t.Errorf("chain %d: %d places of their own, %+v", c, len(taken), v)
		}
	}
}

// A chain that another Log has extended is read and appended to again, without duplicates. Other
// chains in the batch are committed.
func TestOnlyStaleAppendsAreRetried(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2)
	d.shared = true
	l, other := chain.NewLog(d), chain.NewLog(d)
	defer run(t, l)()
	appendAll(t, l, 1, 0, 3)
	defer run(t, other)()
	appendAll(t, other, 1, 3, 5) // not known to l
	appendAll(t, l, 2, 0, 1)
	appendAll(t, l, 1, 5, 7)
	if v := verify(t, d, 1); !v.Valid || v.Length != 7 {
		t.Errorf("%+v", v)
	}
	if v := verify(t, d, 2); !v.Valid || v.Length != 1 {
		t.Errorf("%+v", v)
	}
}

// A batch with a lost transaction is retried. After repeated losses, its callers get an error.
func TestLostTransactionIsRetried(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"head", "extend", "commit"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			d := newDisk(1)
			l := chain.NewLog(d)
			defer run(t, l)()
			left := 3
			lose := func(name string, _ int64) error {
				if name != step || left == 0 {
					return nil
				}
				left--
				return fmt.Errorf("%w: %w: the connection broke", errLost, chain.ErrTransactionLost)
			}
			d.setFault(lose)
			appendAll(t, l, 1, 0, 2)
			d.setFault(func(name string, _ int64) error {
				if name == "commit" {
					return chain.ErrTransactionLost
				}
				return nil
			})
			if _, err := l.Append(t.Context(), draft(1, 2)); !errors.Is(err, chain.ErrTransactionLost) {
				t.Errorf("an append that is lost each time: %v", err)
			}
			d.setFault(nil)
			appendAll(t, l, 1, 2, 4)
			if v := verify(t, d, 1); !v.Valid || v.Length != 4 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// No retry of a lost transaction begins after MaxLostTime, so callers get an answer even if each
// attempt is slow.
func TestLostTransactionRetriesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		l := chain.NewLog(d)
		defer run(t, l)()
		d.setFault(func(name string, _ int64) error {
			if name != "commit" {
				return nil
			}
			time.Sleep(chain.MaxLostTime / 2)
			return chain.ErrTransactionLost
		})
		begun := time.Now()
		if _, err := l.Append(t.Context(), draft(1, 0)); !errors.Is(err, chain.ErrTransactionLost) {
			t.Error(err)
		}
		if waited := time.Since(begun); waited != chain.MaxLostTime {
			t.Errorf("the caller has waited for %v", waited)
		}
	})
}
