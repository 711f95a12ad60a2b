package chain_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"

	"attestd/chain"
)

// prune says that the payloads of the first records are pruned, and takes the first of them away.
func prune(s *stored, records, gone int) {
	h := sha256.New()
	for i := range s.rows[:records] {
		h.Write(s.rows[i].AppendSkeleton(nil))
	}
	s.prune = chain.Pruned{Records: int64(records), Skeleton: chain.Hash(h.Sum(nil))}
	for i := range s.rows[:gone] {
		s.rows[i].Payload = nil
	}
}

// A chain without the payloads that were pruned verifies, also while they go, and says how many are
// missing. It has the root that it had.
func TestVerifyPruned(t *testing.T) {
	t.Parallel()
	for _, gone := range []int{0, 1, 256, 399, 400} {
		d := newDisk(1)
		grow(t, d, 1, 0, fixtureSize)
		warm := chain.NewVerifier(d, 2)
		before := mustVerify(t, warm, 1)
		d.tamper(1, func(s *stored) { prune(s, 400, gone) })
		want := before
		want.Pruned = int64(gone)
		for name, v := range map[string]*chain.Verifier{"verified before": warm, "for the first time": chain.NewVerifier(d, 2)} {
			for range 2 { // the second time from what it remembers
				if got := mustVerify(t, v, 1); got != want {
					t.Errorf("%d gone, %s: %+v, want %+v", gone, name, got, want)
				}
			}
		}
		grow(t, d, 1, fixtureSize, fixtureSize+10)
		if v := mustVerify(t, warm, 1); !v.Valid || v.Pruned != int64(gone) {
			t.Errorf("%d gone, after an append: %+v", gone, v)
		}
	}
}

// Nothing that is left of a pruned record may change, although its hash cannot be computed, and no
// payload may be missing beyond.
func TestVerifyPrunedFindsChanges(t *testing.T) {
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, fixtureSize)
	original.tamper(1, func(s *stored) { prune(s, 400, 400) })
	warm := func(d *disk) *chain.Verifier {
		v := chain.NewVerifier(d, 2)
		mustVerify(t, v, 1)
		return v
	}
	for name, c := range map[string]struct {
		tamper func(s *stored)
		at     int64
		reason string
	}{
		"timestamp of the last": {func(s *stored) { s.rows[399].Timestamp = "2999" + s.rows[399].Timestamp[4:] }, 0, "first 400 records"},
		"timestamp":             {func(s *stored) { s.rows[300].Timestamp = "2001" + s.rows[300].Timestamp[4:] }, 300, "earlier"},
		"timestamp is none":     {func(s *stored) { s.rows[300].Timestamp = "yesterday" }, 300, "timestamp"},
		"delegation":            {func(s *stored) { edit(&s.rows[300].Delegation, `"s"`, `"x"`) }, 0, "first 400 records"},
		"no delegation":         {func(s *stored) { s.rows[300].Delegation = nil }, 0, "first 400 records"},
		"new delegation":        {func(s *stored) { s.rows[301].Delegation = s.rows[300].Delegation }, 0, "first 400 records"},
		"delegation of the last": {func(s *stored) {
			s.rows[399].Delegation = append(s.rows[399].Delegation, ' ')
		}, 0, "first 400 records"},
		"hash":      {func(s *stored) { s.rows[300].Hash[31] ^= 1 }, 300, "signature"},
		"signature": {func(s *stored) { s.rows[300].Signature[63] ^= 1 }, 300, "signature"},
		"foreign key": {func(s *stored) {
			s.rows[300].Payload = draft(1, 300).Payload
			reseal(&s.rows[300], otherKey)
			s.rows[300].Payload = nil
			rebuild(s)
		}, 300, "signature"},
		"swapped, in the order of their times": {func(s *stored) {
			swapRows(s, 300, 301)
			s.rows[300].Timestamp, s.rows[301].Timestamp = s.rows[301].Timestamp, s.rows[300].Timestamp
		}, 0, "first 400 records"},
		"payload beyond":   {func(s *stored) { s.rows[400].Payload = nil }, 400, "was not pruned"},
		"less was pruned":  {func(s *stored) { prune(s, 300, 0) }, 300, "was not pruned"},
		"nothing pruned":   {func(s *stored) { s.prune = chain.Pruned{} }, 0, "was not pruned"},
		"another skeleton": {func(s *stored) { s.prune.Skeleton[0] ^= 1 }, 0, "first 400 records"},
		"more was pruned than there is": {func(s *stored) { s.prune.Records = fixtureSize + 1 }, fixtureSize,
			"the payloads of 601 records were pruned"},
		"another payload": {func(s *stored) { s.rows[300].Payload = draft(1, 299).Payload }, 300, "hash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := original.clone()
			known := warm(d)
			d.tamper(1, c.tamper)
			for _, v := range []*chain.Verifier{known, chain.NewVerifier(d, 3)} {
				got := mustVerify(t, v, 1)
				switch {
				case got.Valid:
					t.Errorf("%+v", got)
				case got.FailedAt != c.at || !strings.Contains(got.Reason, c.reason):
					t.Errorf("%+v, want failure at %d for %q", got, c.at, c.reason)
				case got.Length > got.FailedAt || got.Pruned > got.Length:
					t.Errorf("%+v says more than was verified", got)
				}
			}
		})
	}
}

// Payloads that go while a verification reads are not called missing.
func TestVerifyWhilePruning(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, fixtureSize)
	began := false
	d.setFault(func(step string, _ int64) error {
		if step == "records" && !began {
			began = true
			d.tamper(1, func(s *stored) { prune(s, 400, 400) })
		}
		return nil
	})
	if v := mustVerify(t, chain.NewVerifier(d, 2), 1); !v.Valid || v.Pruned != 400 || !began {
		t.Errorf("%+v", v)
	}
}

// Where what was pruned does not verify, a missing payload is one, and says why. Where it cannot be
// read, there is no verdict.
func TestVerifyPrunedUnproven(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, fixtureSize)
	d.tamper(1, func(s *stored) { prune(s, 400, 0) })
	var fault error
	d.setFault(func(step string, _ int64) error {
		if step == "pruned" {
			return fault
		}
		return nil
	})
	fault = fmt.Errorf("control record 7: %w", chain.ErrUnproven)
	if v := mustVerify(t, chain.NewVerifier(d, 2), 1); !v.Valid {
		t.Errorf("all payloads are there: %+v", v)
	}
	d.tamper(1, func(s *stored) { prune(s, 400, 1) })
	if v := mustVerify(t, chain.NewVerifier(d, 2), 1); v.Valid || v.FailedAt != 0 || !strings.Contains(v.Reason, "control record 7") {
		t.Errorf("%+v", v)
	}
	fault = errDisk
	if v, err := chain.NewVerifier(d, 2).Verify(t.Context(), 1, nil); !errors.Is(err, errDisk) {
		t.Errorf("%+v, %v", v, err)
	}
}

// A monitor of a chain that other servers write gives verdicts on a pruned one.
func TestMonitorOfPruned(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, fixtureSize)
	d.tamper(1, func(s *stored) { prune(s, 400, 400) })
	m := chain.NewMonitor(d, chain.NewVerifier(d, 2), true)
	read := func(from int64) (records []chain.Record, next int64, err error) {
		err = d.Records(t.Context(), 1, from, fixtureSize, func(r *chain.Record) error {
			records = append(records, r.Clone())
			return nil
		})
		return records, fixtureSize, err
	}
	events, err := m.EventReader(1, 400).Events(t.Context(), read)
	if err != nil || len(events) != 200 || !events[199].Verdict.Valid {
		t.Fatalf("%d events, %v", len(events), err)
	}
}
