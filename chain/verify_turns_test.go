package chain_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// In these tests reading a range takes a while on the clock of the bubble, and all else takes no
// time. So what they say of time is exact.

// slowDisk holds chains of the given lengths, numbered from 1.
func slowDisk(t *testing.T, lengths ...int) *disk {
	t.Helper()
	d := newDisk()
	for i, n := range lengths {
		c := int64(i + 1)
		d.chains[c] = newDisk(c).chains[c]
		grow(t, d, c, 0, n)
	}
	return d
}

func (d *disk) readsTake(each time.Duration) {
	d.setFault(func(step string, _ int64) error {
		if step == "records" {
			time.Sleep(each)
		}
		return nil
	})
}

func (d *disk) reads() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps["records"]
}

// appending says every millisecond that something was appended, until the function that it returns
// is called.
func appending(t *testing.T, v *chain.Verifier) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	v.Appended()
	ended.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Millisecond)
			v.Appended()
		}
	})
	return func() { cancel(); ended.Wait() }
}

// A short chain is verified among long ones after one turn of each, and the long ones are done at
// about the same time.
func TestVerifyTakesTurns(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 1200, 1200, 1200, 50)
	synctest.Test(t, func(t *testing.T) {
		d.readsTake(5 * time.Millisecond)
		verifier := chain.NewVerifier(d, 2)
		start := time.Now()
		var took [5]time.Duration
		var all sync.WaitGroup
		verify := func(c int64) {
			all.Go(func() {
				if v := mustVerify(t, verifier, c); !v.Valid {
					t.Errorf("chain %d: %+v", c, v)
				}
				took[c] = time.Since(start)
			})
		}
		for c := range int64(3) {
			verify(c + 1)
		}
		time.Sleep(time.Millisecond) // they are all there before the short one
		verify(4)
		all.Wait()
		// a turn ends after the range that is being read
		const turn = 10*time.Millisecond + 5*time.Millisecond
		if took[4] > 4*turn {
			t.Errorf("the short chain took %v beside three long ones", took[4])
		}
		const work = 10 * 5 * time.Millisecond // of a long chain, read in ranges of 128
		for _, long := range took[1:4] {
			if long < 3*work-3*turn || long > 3*work+3*turn {
				t.Errorf("the long chains took %v", took[1:4])
			}
		}
	})
}

// While records are appended, all runs together read for a fifth of the time.
func TestVerifyGivesWayToAppends(t *testing.T) {
	t.Parallel()
	original := slowDisk(t, 600, 600)
	for _, runs := range []int{1, 2, 8} {
		synctest.Test(t, func(t *testing.T) {
			d := original.clone()
			d.readsTake(time.Millisecond)
			verifier := chain.NewVerifier(d, 2)
			defer appending(t, verifier)()
			start := time.Now()
			var all sync.WaitGroup
			for i := range runs {
				all.Go(func() { mustVerify(t, verifier, int64(1+i%2)) })
			}
			all.Wait()
			took, reading := time.Since(start), time.Duration(d.reads())*time.Millisecond
			if took < 5*(reading-time.Millisecond) {
				t.Errorf("%d runs read for %v of %v beside appends", runs, reading, took)
			}
		})
	}
}

// When appends have ended, a run takes all of the machine again.
func TestVerifyAfterAppends(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 600)
	synctest.Test(t, func(t *testing.T) {
		verifier := chain.NewVerifier(d, 2)
		d.readsTake(time.Millisecond)
		verifier.Appended()
		time.Sleep(time.Second)
		start := time.Now()
		mustVerify(t, verifier, 1)
		if took, want := time.Since(start), 5*time.Millisecond; took != want {
			t.Errorf("took %v instead of %v", took, want)
		}
	})
}

// An append in the middle of a run counts from the next range on, and only for a moment.
func TestVerifyDetectsAppendsMidway(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 1200)
	synctest.Test(t, func(t *testing.T) {
		verifier := chain.NewVerifier(d, 1)
		n, slept := 0, time.Now()
		d.setFault(func(step string, _ int64) error {
			if step == "records" {
				if n++; n == 2 {
					verifier.Appended()
				}
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		mustVerify(t, verifier, 1)
		if total := time.Since(slept); n <= 10 || n >= 1200/24 || total >= time.Second {
			t.Errorf("%d reads in %v: want small ones for a tenth of a second", n, total)
		}
	})
}

// Who stops waiting for a turn does not get one, and does not keep it from others.
func TestVerifyCancelledWhileItWaits(t *testing.T) {
	t.Parallel()
	d := slowDisk(t, 600, 600)
	synctest.Test(t, func(t *testing.T) {
		d.readsTake(time.Second)
		verifier := chain.NewVerifier(d, 2)
		var all sync.WaitGroup
		all.Go(func() { mustVerify(t, verifier, 1) })
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		start := time.Now()
		v, err := verifier.Verify(ctx, 2, nil)
		if !errors.Is(err, context.DeadlineExceeded) || v != (chain.Verdict{}) || time.Since(start) != time.Millisecond {
			t.Errorf("%+v, %v after %v", v, err, time.Since(start))
		}
		all.Wait()
		d.setFault(nil)
		if v := mustVerify(t, verifier, 2); !v.Valid {
			t.Errorf("%+v", v)
		}
	})
}
