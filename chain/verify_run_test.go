package chain_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"
)

// fixtureSize has two stored nodes, and 88 records after them.
const fixtureSize = 600

func swapRows(s *stored, i, j int) {
	s.rows[i], s.rows[j] = s.rows[j], s.rows[i]
	s.rows[i].Index, s.rows[j].Index = s.rows[j].Index, s.rows[i].Index
}

func TestVerifyFindsTheFirstFailure(t *testing.T) {
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, fixtureSize)
	for _, c := range []struct {
		name   string
		tamper func(s *stored)
		at     int64
		reason string
	}{
		// every column of a row
		{"payload edited", func(s *stored) { edit(&s.rows[300].Payload, `"z"`, `"y"`) }, 300, "hash"},
		{"payload is no JSON", func(s *stored) { s.rows[300].Payload = []byte("{") }, 300, "canonical form"},
		{"payload with a duplicate key", func(s *stored) { edit(&s.rows[300].Payload, `"z"`, `"z":1,"z"`) }, 300, "canonical form"},
		{"payload gone", func(s *stored) { s.rows[300].Payload = nil }, 300, "was not pruned"},
		{"timestamp edited", func(s *stored) { s.rows[300].Timestamp = "2001" + s.rows[300].Timestamp[4:] }, 300, "hash"},
		{"timestamp is none", func(s *stored) { s.rows[300].Timestamp = "yesterday" }, 300, "timestamp"},
		{"border between timestamp and payload moved", func(s *stored) {
			r := &s.rows[300]
			r.Timestamp += "|" + string(draft(1, 300).Canonical)
			r.Payload, r.Delegation = r.Delegation, nil
		}, 300, "timestamp"},
		{"delegation edited", func(s *stored) { edit(&s.rows[300].Delegation, `"s"`, `"x"`) }, 300, "hash"},
		{"delegation taken away", func(s *stored) { s.rows[300].Delegation = nil }, 300, "hash"},
		{"delegation added", func(s *stored) { s.rows[301].Delegation = s.rows[300].Delegation }, 301, "hash"},
		{"hash edited", func(s *stored) { s.rows[300].Hash[31] ^= 1 }, 300, "hash"},
		{"signature edited", func(s *stored) { s.rows[300].Signature[63] ^= 1 }, 300, "signature"},
		{"index edited", func(s *stored) { s.rows[300].Index = 299 }, 299, "twice"},

		// changes that keep dependent fields consistent
		{"payload and hash", func(s *stored) {
			edit(&s.rows[300].Payload, `"z"`, `"y"`)
			signature := s.rows[300].Signature
			reseal(&s.rows[300], key)
			s.rows[300].Signature = signature
			rebuild(s)
		}, 300, "signature"},
		{"signed with a foreign key", func(s *stored) {
			reseal(&s.rows[300], otherKey)
			rebuild(s)
		}, 300, "signature"},
		{"rewritten with the company's key, below a stored node", func(s *stored) {
			edit(&s.rows[300].Payload, `"z"`, `"y"`)
			reseal(&s.rows[300], key)
		}, 511, "node 1 of level 8"},
		{"rewritten with the company's key, after the last stored node", func(s *stored) {
			edit(&s.rows[512].Payload, `"z"`, `"y"`)
			reseal(&s.rows[512], key)
		}, 599, "root"},
		{"earlier than the record before", func(s *stored) {
			s.rows[300].Timestamp = "2001" + s.rows[300].Timestamp[4:]
			reseal(&s.rows[300], key)
			rebuild(s)
		}, 300, "earlier"},
		{"a record of another place", func(s *stored) {
			index := s.rows[300].Index
			s.rows[300] = s.rows[200]
			s.rows[300].Index = index
		}, 300, "hash"},

		// rows as such
		{"first row gone", func(s *stored) { s.rows = s.rows[1:] }, 0, "missing"},
		{"a row gone", func(s *stored) { s.rows = slices.Delete(s.rows, 300, 301) }, 300, "missing"},
		{"many rows gone", func(s *stored) { s.rows = slices.Delete(s.rows, 5, 590) }, 5, "missing"},
		{"last row cut off", func(s *stored) { s.rows = s.rows[:599] }, 599, "missing"},
		{"many rows cut off", func(s *stored) { s.rows = s.rows[:256] }, 256, "missing"},
		{"all rows cut off", func(s *stored) { s.rows = nil }, 0, "missing"},
		{"a row twice", func(s *stored) { s.rows = slices.Insert(s.rows, 300, s.rows[300]) }, 300, "twice"},
		{"two rows swapped", func(s *stored) { swapRows(s, 300, 400) }, 300, "hash"},
		{"a row beyond the head", func(s *stored) {
			r := s.rows[0]
			r.Index = 600
			reseal(&r, key)
			s.rows = append(s.rows, r)
		}, 600, "beyond"},

		// nodes and head
		{"first node edited", func(s *stored) { n := s.nodes[[2]int64{8, 0}]; n[0] ^= 1; s.nodes[[2]int64{8, 0}] = n }, 255, "node 0 of level 8"},
		{"first node of the log tree edited", func(s *stored) { n := s.log[[2]int64{8, 0}]; n[0] ^= 1; s.log[[2]int64{8, 0}] = n }, 255, "node 0 of level 8 of the log tree"},
		{"root of the log tree edited", func(s *stored) { s.head.LogRoot[0] ^= 1 }, 599, "root of the log tree"},
		{"frontier of the log tree edited", func(s *stored) { s.head.Log.Roots = s.head.Log.Roots[:1] }, 599, "frontier of the log tree"},
		{"length of the log tree edited", func(s *stored) { s.head.Log.Size = 512 }, 599, "frontier of the log tree"},
		{"second node gone", func(s *stored) { delete(s.nodes, [2]int64{8, 1}) }, 511, "missing"},
		{"root edited", func(s *stored) { s.head.Root[0] ^= 1 }, 599, "root"},
		{"frontier edited", func(s *stored) { s.head.Frontier = s.head.Frontier[:1] }, 599, "frontier"},
		{"time of the head edited", func(s *stored) { s.head.Timestamp = "" }, 599, "time"},
		{"length of the head raised", func(s *stored) { s.head.Length = 602 }, 600, "missing"},
		{"length of the head lowered", func(s *stored) { s.head.Length = 590 }, 590, "beyond"},
		{"length of the head negative", func(s *stored) { s.head.Length = -1 }, 0, "negative"},
		{"head gone", func(s *stored) { s.gone = true }, 0, "head is missing"},
		{"head of an empty chain", func(s *stored) { s.head = chain.EmptyHead() }, 0, "beyond"},

		// the first of several
		{"two edited rows", func(s *stored) { s.rows[400].Hash[0] ^= 1; s.rows[20].Signature[0] ^= 1 }, 20, "signature"},
		{"a wrong node before an edited row", func(s *stored) { delete(s.nodes, [2]int64{8, 0}); s.rows[256].Hash[0] ^= 1 }, 255, "node"},
		{"an edited row before a wrong node", func(s *stored) { delete(s.nodes, [2]int64{8, 0}); s.rows[255].Hash[0] ^= 1 }, 255, "hash"},
		{"an edited row before a cut", func(s *stored) { s.rows = s.rows[:500]; s.rows[499].Hash[0] ^= 1 }, 499, "hash"},
		{"a gap before a row beyond the head", func(s *stored) {
			s.head.Length = 590
			s.rows = slices.Delete(s.rows, 589, 590)
		}, 589, "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := original.clone()
			warm := chain.NewVerifier(d, 2)
			if v := mustVerify(t, warm, 1); !v.Valid {
				t.Fatalf("before: %+v", v)
			}
			d.tamper(1, c.tamper)
			verifiers := map[string]*chain.Verifier{"three workers": chain.NewVerifier(d, 3), "verified before": warm}
			if testenv.Long() {
				verifiers["one worker"], verifiers["again"] = chain.NewVerifier(d, 1), warm
			}
			for name, verifier := range verifiers {
				v := mustVerify(t, verifier, 1)
				if v.Valid || v.FailedAt != c.at || !strings.Contains(v.Reason, c.reason) || v.Length > c.at+1 || v.Root != (chain.Hash{}) {
					t.Errorf("%s: %+v, want failure at %d for its %s", name, v, c.at, c.reason)
				}
			}
		})
	}
}

func edit(field *[]byte, old, new string) {
	if !bytes.Contains(*field, []byte(old)) {
		panic("nothing to edit")
	}
	*field = bytes.Replace(*field, []byte(old), []byte(new), 1)
}

func mustVerify(t testing.TB, v *chain.Verifier, c int64) chain.Verdict {
	t.Helper()
	verdict, err := v.Verify(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

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

// A paced run takes half of the time on an idle machine, and a sixtieth while appends run.
func TestPacedVerifyRests(t *testing.T) {
	t.Parallel()
	original := slowDisk(t, 600)
	for _, second := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := original.clone()
			d.readsTake(time.Millisecond)
			verifier := chain.NewVerifier(d, 2)
			least, most := time.Duration(2), time.Duration(3)
			if second {
				defer appending(t, verifier)()
				least, most = 60, 62
			}
			start := time.Now()
			if v, err := verifier.VerifyPaced(t.Context(), 1); err != nil || !v.Valid || v.Length != 600 {
				t.Errorf("%+v, %v", v, err)
			}
			took, reading := time.Since(start), time.Duration(d.reads())*time.Millisecond
			if took < least*(reading-time.Millisecond) || took > most*reading {
				t.Errorf("appends %v: it read for %v of %v", second, reading, took)
			}
		})
	}
}

// A requested verification takes as long during a paced one as alone, but for the range that is
// being read. Many of them delay the paced one and do not stop it.
func TestPacedVerifyGivesWay(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 96, 600)
	synctest.Test(t, func(t *testing.T) {
		d.readsTake(25 * time.Millisecond)
		verifier := chain.NewVerifier(d, 2)
		alone := time.Now()
		mustVerify(t, chain.NewVerifier(d, 2), 2)
		took := time.Since(alone)

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		ended := make(chan struct{})
		all.Go(func() {
			defer close(ended)
			if v, err := verifier.VerifyPaced(t.Context(), 1); err != nil || !v.Valid {
				t.Errorf("%+v, %v", v, err)
			}
		})
		time.Sleep(time.Millisecond)
		start := time.Now()
		mustVerify(t, verifier, 2)
		if second := time.Since(start); second > took+30*time.Millisecond {
			t.Errorf("a verification took %v during a paced one, %v alone", second, took)
		}
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = verifier.Verify(ctx, 2, nil)
			}
		})
		select {
		case <-ended:
		case <-time.After(5 * time.Minute):
			t.Error("the paced verification does not end while others run")
		}
		cancel()
		all.Wait()
	})
}

// A paced run that is interrupted goes on where it stood: no signature is checked twice.
func TestPacedVerifyGoesOn(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 1200)
	synctest.Test(t, func(t *testing.T) {
		d.readsTake(time.Millisecond)
		verifier := chain.NewVerifier(d, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if v, err := verifier.VerifyPaced(ctx, 1); err == nil {
			t.Fatalf("not interrupted: %+v", v)
		}
		known, _ := verifier.Prefixes()
		first := known[1].Length
		if first < 100 || first >= 1200 {
			t.Fatalf("%d records are known after 50 ms", first)
		}
		again := chain.NewVerifier(d, 2)
		again.Recall(known)
		before := d.reads()
		if v, err := again.VerifyPaced(t.Context(), 1); err != nil || !v.Valid {
			t.Fatalf("%+v, %v", v, err)
		}
		// 256 known records a read, and 24 others
		if want := int((first+255)/256 + (1200-first+23)/24); d.reads()-before != want {
			t.Errorf("%d reads, want %d", d.reads()-before, want)
		}
	})
}
