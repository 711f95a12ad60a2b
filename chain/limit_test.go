package chain_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// Of one batch, each chain gets what its limit and the room of all have place for, in order of
// arrival. An append or a change that does not fit is refused entirely and alone, with its rows;
// what is there already needs no place, and what is exempt takes place and is never refused.
func TestQuotasAreExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1, 2, 3, 4)
		d.limits = map[int64]chain.Limit{1: {Records: 3}, 2: {Bytes: int64(2 * len(draft(2, 1).Payload))}, 3: {Closed: true}}
		d.room = chain.Room{Bounded: true, Records: 9, Bytes: 1 << 20}
		exempt := func(c int64) chain.Draft { e := draft(c, 1); e.Exempt = true; return e }
		type result struct {
			name string
			ask  func() ([]chain.Appended, error)
			err  error
		}
		var results []result
		var tooMany, closed, fits func() ([]chain.Record, error)
		inOneBatch(t, d, func(l *chain.Log) {
			add := func(name string, err error, drafts ...chain.Draft) {
				results = append(results, result{name, submit(l, drafts...), err})
			}
			add("keyed", nil, keyedDraft(1, 0, "k"))
			add("four", chain.ErrQuota, draft(1, 1), draft(1, 1), draft(1, 1), draft(1, 1))
			tooMany = writeLater(l, rows(d, "too many", 1, 1, 1))
			add("replayed", nil, keyedDraft(1, 0, "k"))
			add("two", nil, draft(1, 1), draft(1, 2))
			add("one more", chain.ErrQuota, keyedDraft(1, 3, "late"))
			add("its retry", chain.ErrQuota, keyedDraft(1, 3, "late"))
			add("exempt", nil, exempt(1))
			add("bytes", nil, draft(2, 1), draft(2, 2))
			add("more bytes", chain.ErrQuota, draft(2, 1))
			closed = writeLater(l, rows(d, "closed", 3))
			add("closed append", chain.ErrClosedChain, draft(3, 1))
			add("exempt of a closed one", nil, exempt(3))
			fits = writeLater(l, rows(d, "fits", 4))
			add("room", nil, draft(4, 1))
			add("no room", chain.ErrQuota, draft(4, 1), draft(4, 1))
		})
		for _, r := range results {
			if _, err := r.ask(); !errors.Is(err, r.err) {
				t.Errorf("%s: %v", r.name, err)
			}
		}
		if _, err := tooMany(); !errors.Is(err, chain.ErrQuota) {
			t.Errorf("too many: %v", err)
		}
		if _, err := closed(); !errors.Is(err, chain.ErrClosedChain) {
			t.Errorf("closed: %v", err)
		}
		if _, err := fits(); err != nil {
			t.Errorf("fits: %v", err)
		}
		if want := []string{"fits"}; !slices.Equal(d.table, want) {
			t.Errorf("rows %q", d.table)
		}
		for c, want := range map[int64]int{1: 4, 2: 2, 3: 1, 4: 2} {
			if n := len(d.chains[c].rows); n != want {
				t.Errorf("chain %d has %d records, want %d", c, n, want)
			}
			var size int64
			for _, r := range d.chains[c].rows {
				size += int64(len(r.Payload) + len(r.Delegation))
			}
			if d.chains[c].head.Bytes != size {
				t.Errorf("chain %d counts %d bytes, has %d", c, d.chains[c].head.Bytes, size)
			}
			if v := verify(t, d, c); !v.Valid {
				t.Errorf("chain %d: %+v", c, v)
			}
		}
	})
}
