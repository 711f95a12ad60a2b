package chain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// Each step of the storage fails twice in a row: without effect, and after its effect. Whatever happens, what was acknowledged is there,
// once and in its place, and the chains verify — in this log, and in one that starts afresh.
func TestEveryStepFailsTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step      string // "head" reads, "extend" fails before the commit, "committed" after it
		err       error
		persisted bool // the records of a failed append are on disk
		survives  bool // the failure is mended without the caller seeing it
	}{
		{step: "head", err: errDisk},
		{step: "extend", err: errDisk},
		{step: "committed", err: errDisk, persisted: true},
		{step: "extend", err: fmt.Errorf("begin: %w", chain.ErrStale), survives: true},
	} {
		for at := range 6 {
			t.Run(fmt.Sprintf("%s %v at append %d", c.step, c.err, at), func(t *testing.T) {
				t.Parallel()
				d := newDisk(1, 2)
				var published []chain.Record
				l := chain.NewLog(d, func(batch []chain.Extension, _ bool) {
					for _, e := range batch {
						if e.Chain == 1 {
							published = append(published, e.Records...)
						}
					}
				})
				stop := run(t, l)
				acknowledged := map[int64]chain.Hash{}
				failed := 0
				for i := range 12 {
					if i == at {
						if c.step == "head" {
							d.tamper(1, func(*stored) {}) // a foreign write drops the cached head of chain 1
							l.Append(t.Context(), draft(2, i))
						}
						d.setFault(failTwice(c.step, c.err))
					}
					r, err := l.Append(t.Context(), draft(1, i))
					if err != nil {
						failed++
						if !errors.Is(err, c.err) {
							t.Errorf("append %d: %v", i, err)
						}
						continue
					}
					if _, twice := acknowledged[r.Index]; twice {
						t.Errorf("index %d was given twice", r.Index)
					}
					acknowledged[r.Index] = r.Hash
				}
				stop()

				want := 2
				if c.survives {
					want = 0
				}
				if failed != want {
					t.Errorf("%d appends failed, want %d", failed, want)
				}
				onDisk := 12 - failed
				if c.persisted {
					onDisk = 12
				}
				check := func(onDisk int) {
					if v := verify(t, d, 1); !v.Valid || v.Length != int64(onDisk) {
						t.Errorf("verdict %+v, want %d records", v, onDisk)
					}
					for index, hash := range acknowledged {
						if d.chains[1].rows[index].Hash != hash {
							t.Errorf("acknowledged record %d is not on disk", index)
						}
					}
				}
				check(onDisk)
				if len(published) != len(acknowledged) {
					t.Errorf("%d records published, %d acknowledged", len(published), len(acknowledged))
				}
				grow(t, d, 1, 12, 15)
				check(onDisk + 3)
			})
		}
	}
}

func failTwice(step string, err error) func(string, int64) error {
	left := 2
	return func(s string, _ int64) error {
		if s != step || left == 0 {
			return nil
		}
		left--
		return err
	}
}

// A head that never stops moving ends in an error, not in a loop.
func TestStaleForEver(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	d.fault = func(step string, _ int64) error {
		if step == "extend" {
			return chain.ErrStale
		}
		return nil
	}
	l := chain.NewLog(d, nil)
	stop := run(t, l)
	if _, err := l.Append(t.Context(), draft(1, 0)); !errors.Is(err, chain.ErrStale) {
		t.Errorf("append: %v", err)
	}
	d.setFault(nil)
	if r, err := l.Append(t.Context(), draft(1, 1)); err != nil || r.Index != 0 {
		t.Errorf("append after it stopped: index %d, %v", r.Index, err)
	}
	stop()
}

// What is wrong with one chain on disk is no reason to refuse the records of others that wait beside it.
func TestBadChainFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1, 2)
		syncing := make(chan struct{})
		tries := 0
		d.setFault(func(step string, _ int64) error {
			if step != "extend" {
				return nil
			}
			<-syncing
			if tries++; tries == 2 { // the batch that holds both chains
				return &chain.ChainError{Chain: 1, Err: errDisk}
			}
			return nil
		})
		l := chain.NewLog(d, nil)
		stop := run(t, l)
		appendLater(l, draft(2, 0)) // stuck in its sync while the others gather
		bad, good, alsoBad := appendLater(l, draft(1, 1)), appendLater(l, draft(2, 2)), appendLater(l, draft(1, 3))
		close(syncing)
		for _, answer := range []func() (chain.Record, error){bad, alsoBad} {
			if _, err := answer(); !errors.Is(err, errDisk) {
				t.Errorf("the bad chain: %v", err)
			}
		}
		if r, err := good(); err != nil || r.Index != 1 {
			t.Errorf("the chain beside it: index %d, %v", r.Index, err)
		}
		stop()
		if !slices.Equal(d.batches, []int{1, 1}) {
			t.Errorf("batches of %v records, want 1 and 1", d.batches)
		}
	})
}
