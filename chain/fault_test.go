package chain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// Each step of the storage fails twice in a row, both before and after its effect. Each
// acknowledged record is stored exactly once, and the chains verify in this log and after a
// restart. The reported outcome (nothing written, or unknown) is correct.
func TestEveryStepFailsTwice(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("%w: %w", chain.ErrUnknown, errDisk)
	for _, c := range []struct {
		step      string // "commit" fails before the commit, "committed" after it
		err       error
		persisted bool // the records of a failed append are on disk
	}{
		{step: "begin", err: errDisk},
		{step: "head", err: errDisk},
		{step: "head", err: errLost},
		{step: "extend", err: errDisk},
		{step: "extend", err: errLost},
		{step: "commit", err: errDisk},
		{step: "commit", err: unknown},
		{step: "committed", err: unknown, persisted: true},
	} {
		for at := range 6 {
			t.Run(fmt.Sprintf("%s %v at append %d", c.step, c.err, at), func(t *testing.T) {
				t.Parallel()
				d := newDisk(1, 2)
				var published []chain.Record
				l := chain.NewLog(d)
				stop := runWith(t, l, func(batch []chain.Extension, _ bool) {
					for _, e := range batch {
						if e.Chain == 1 {
							published = append(published, e.Records...)
						}
					}
				})
				acknowledged := map[int64]chain.Hash{}
				failed := 0
				for i := range 12 {
					if i == at {
						if c.step == "head" {
							// an external write drops the cached head of chain 1
							d.tamper(1, func(*stored) {})
							l.Append(t.Context(), draft(2, i))
						}
						d.setFault(fail(2, c.step, c.err))
					}
					r, err := l.Append(t.Context(), draft(1, i))
					if err != nil {
						failed++
						if !errors.Is(err, c.err) || errors.Is(err, chain.ErrUnknown) != (c.err == unknown) {
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
				if failed != 2 {
					t.Errorf("%d appends failed, want 2", failed)
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

// fail makes a step fail a number of times.
func fail(times int, step string, err error) func(string, int64) error {
	return func(s string, _ int64) error {
		if s != step || times == 0 {
			return nil
		}
		times--
		return err
	}
}

// A cached head that is stale is read again. If a head that was just read is stale too, only its
// chain fails.
func TestStaleHead(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	var external []bool
	l := chain.NewLog(d)
	stop := runWith(t, l, func(_ []chain.Extension, e bool) { external = append(external, e) })
	appendAll(t, l, 1, 0, 1)
	d.setFault(fail(1, "extend", chain.ErrStale))
	appendAll(t, l, 1, 1, 2)
	d.setFault(fail(1<<20, "extend", chain.ErrStale))
	if _, err := l.Append(t.Context(), draft(1, 0)); !errors.Is(err, chain.ErrStale) {
		t.Errorf("append to a head that never stops moving: %v", err)
	}
	d.setFault(nil)
	if r, err := l.Append(t.Context(), draft(1, 1)); err != nil || r.Index != 2 {
		t.Errorf("append after it stopped: index %d, %v", r.Index, err)
	}
	stop()
	if !slices.Equal(external, []bool{false, true, true}) {
		t.Errorf("published as external writes: %v", external)
	}
}

// A damaged chain does not fail the appends to other chains in its batch.
func TestInvalidChainFailsAlone(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"head", "extend"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1, 2, 3)
				syncing := make(chan struct{})
				d.setFault(func(s string, c int64) error {
					if s == "commit" {
						<-syncing
					}
					if s == step && c == 1 {
						return errDisk
					}
					return nil
				})
				l := chain.NewLog(d)
				stop := run(t, l)
				appendLater(l, draft(2, 0)) // blocked in its sync while the others are queued
				bad, good, alsoBad := appendLater(l, draft(1, 1)), appendLater(l, draft(2, 2)), appendLater(l, draft(1, 3))
				close(syncing)
				for _, answer := range []func() (chain.Record, error){bad, alsoBad} {
					if _, err := answer(); !errors.Is(err, errDisk) {
						t.Errorf("the bad chain: %v", err)
					}
				}
				if r, err := good(); err != nil || r.Index != 1 {
					t.Errorf("the other chain: index %d, %v", r.Index, err)
				}
				stop()
				if !slices.Equal(d.batches, []int{1, 1}) {
					t.Errorf("batches of %v records, want 1 and 1", d.batches)
				}
			})
		})
	}
}
