package chain_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// A paced run takes half of the time on an idle machine, and a sixtieth beside appends.
func TestPacedVerifyRests(t *testing.T) {
	t.Parallel()
	original := slowDisk(t, 600)
	for _, beside := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := original.clone()
			d.readsTake(time.Millisecond)
			verifier := chain.NewVerifier(d, 2)
			least, most := time.Duration(2), time.Duration(3)
			if beside {
				defer appending(t, verifier)()
				least, most = 60, 62
			}
			start := time.Now()
			if v, err := verifier.VerifyPaced(t.Context(), 1); err != nil || !v.Valid || v.Length != 600 {
				t.Errorf("%+v, %v", v, err)
			}
			took, reading := time.Since(start), time.Duration(d.reads())*time.Millisecond
			if took < least*(reading-time.Millisecond) || took > most*reading {
				t.Errorf("appends %v: it read for %v of %v", beside, reading, took)
			}
		})
	}
}

// A verification that somebody has asked for takes as long beside a paced one as alone, but for the
// range that is being read. Many of them delay the paced one and do not stop it.
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
		if beside := time.Since(start); beside > took+30*time.Millisecond {
			t.Errorf("a verification took %v beside a paced one, %v alone", beside, took)
		}
		all.Go(func() {
			for ctx.Err() == nil {
				_, _ = verifier.Verify(ctx, 2, nil)
			}
		})
		select {
		case <-ended:
		case <-time.After(5 * time.Minute):
			t.Error("the paced verification does not end beside others")
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
