package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"
)

// Only the canonical form is signed, so another spelling of the same value is valid.
func TestVerifyAcceptsAnotherSpelling(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, 10)
	warm := chain.NewVerifier(d, 1)
	mustVerify(t, warm, 1)
	d.tamper(1, func(s *stored) { edit(&s.rows[5].Payload, `[1.0,2e0]`, `[1,  2]`) })
	if v := mustVerify(t, warm, 1); !v.Valid || v.Root != d.chains[1].head.Root {
		t.Errorf("%+v", v)
	}
}

// For any set of edited rows, the first is reported.
func TestVerifyFirstOfMany(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, fixtureSize)
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		d := original.clone()
		first := int64(fixtureSize)
		d.tamper(1, func(s *stored) {
			for range 1 + random.IntN(5) {
				i := random.IntN(fixtureSize)
				first = min(first, int64(i))
				switch random.IntN(3) {
				case 0:
					s.rows[i].Payload = []byte(`{"agentId":"a"}`)
				case 1:
					s.rows[i].Hash[random.IntN(32)]++
				case 2:
					s.rows[i].Signature[random.IntN(64)]++
				}
			}
		})
		if v := mustVerify(t, chain.NewVerifier(d, 3), 1); v.Valid || v.FailedAt != first {
			t.Fatalf("%+v, want failure at %d", v, first)
		}
	}
}

func TestVerifyOtherKey(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, 5)
	verifier := chain.NewVerifier(d, 1)
	mustVerify(t, verifier, 1)
	d.tamper(1, func(s *stored) { s.keys = signingBy(otherKey) })
	if v := mustVerify(t, verifier, 1); v.Valid || v.FailedAt != 0 {
		t.Errorf("%+v: what was verified under one key must not pass under another", v)
	}
	d.tamper(1, func(s *stored) { s.keys.set = nil })
	if v := mustVerify(t, verifier, 1); v.Valid || v.FailedAt != 0 {
		t.Errorf("%+v without a key", v)
	}
}

func TestVerifyEmptyChain(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	if v := verify(t, d, 1); !v.Valid || v.Length != 0 || v.Root != sha256Sum("") {
		t.Errorf("%+v", v)
	}
	d.tamper(1, func(s *stored) { s.head.Root[0] ^= 1 })
	if v := verify(t, d, 1); v.Valid || v.FailedAt != 0 {
		t.Errorf("%+v", v)
	}
}

// A verdict on a growing chain always covers the head of one moment.
func TestVerifyGrowingChain(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	d := newDisk(1)
	verifier := chain.NewVerifier(d, 2)
	for n := 0; n < 700; n += 50 {
		grow(t, d, 1, n, n+50)
		for range 2 {
			if v := mustVerify(t, verifier, 1); !v.Valid || v.Length != int64(n+50) || v.Root != d.chains[1].head.Root {
				t.Fatalf("at %d: %+v", n+50, v)
			}
		}
	}
}

// Large records end a range early and do not change the result.
func TestVerifyLargeRecords(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	d := newDisk(1)
	l := chain.NewLog(d)
	stop := run(t, l)
	for i := range 20 {
		dr := draft(1, i)
		dr.Canonical = []byte(`{"x":"` + strings.Repeat("x", 300<<10) + `"}`)
		dr.Payload = dr.Canonical
		if _, err := l.Append(t.Context(), dr); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	verifier := chain.NewVerifier(d, 2)
	for range 2 {
		if v := mustVerify(t, verifier, 1); !v.Valid || v.Length != 20 {
			t.Fatalf("%+v", v)
		}
	}
	if d.steps["records"] < 2*5 {
		t.Errorf("%d reads: ranges are not bounded by size", d.steps["records"])
	}
	d.tamper(1, func(s *stored) { s.rows[13].Signature[0] ^= 1 })
	if v := mustVerify(t, verifier, 1); v.Valid || v.FailedAt != 13 {
		t.Errorf("%+v", v)
	}
}

// A failed read causes an error and never a verdict, for every read.
func TestVerifyReadErrors(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, 520)
	for _, step := range []string{"tip", "keys", "records", "hashes"} {
		for _, warm := range []bool{false, true} {
			for at := 1; ; at++ {
				d := original.clone()
				verifier := chain.NewVerifier(d, 2)
				if warm {
					mustVerify(t, verifier, 1)
				}
				calls := 0
				d.setFault(func(s string, _ int64) error {
					if s == step {
						if calls++; calls == at {
							return errDisk
						}
					}
					return nil
				})
				v, err := verifier.Verify(t.Context(), 1, nil)
				if calls < at {
					if err != nil || !v.Valid {
						t.Fatalf("without a fault: %+v, %v", v, err)
					}
					break
				}
				if !errors.Is(err, errDisk) || v != (chain.Verdict{}) {
					t.Errorf("read %d of %s: %+v, %v", at, step, v, err)
				}
				d.setFault(nil)
				if v := mustVerify(t, verifier, 1); !v.Valid {
					t.Errorf("after read %d of %s: %+v", at, step, v)
				}
			}
		}
	}
	if _, err := chain.NewVerifier(original, 1).Verify(t.Context(), 9, nil); !errors.Is(err, errNotFound) {
		t.Errorf("a chain that is not there: %v", err)
	}
}

// A failure before an unreadable row causes a verdict.
func TestVerifyFailureBeforeReadError(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, 600)
	d.tamper(1, func(s *stored) { s.rows[3].Hash[0] ^= 1 })
	calls := 0
	d.setFault(func(s string, _ int64) error {
		if s == "records" {
			if calls++; calls > 1 {
				return errDisk
			}
		}
		return nil
	})
	if v := verify(t, d, 1); v.Valid || v.FailedAt != 3 {
		t.Errorf("%+v", v)
	}
}

// Verify ends soon after its context, and leaves no goroutine behind (the bubble would not end).
func TestVerifyCancelled(t *testing.T) {
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, 600)
	for _, warm := range []bool{false, true} {
		for _, step := range []string{"tip", "records", "hashes"} {
			synctest.Test(t, func(t *testing.T) {
				d := original.clone()
				verifier := chain.NewVerifier(d, 2)
				if warm {
					mustVerify(t, verifier, 1)
				}
				ctx, cancel := context.WithCancel(t.Context())
				before := d.steps["records"]
				d.setFault(func(s string, _ int64) error {
					if s == step {
						cancel()
					}
					return nil
				})
				v, err := verifier.Verify(ctx, 1, nil)
				if err == nil && !v.Valid || err != nil && (!errors.Is(err, context.Canceled) || v != (chain.Verdict{})) {
					t.Errorf("cancelled at %s: %+v, %v; want the error, or the verdict where all was done", step, v, err)
				}
				if err == nil && !(warm && step == "hashes") {
					t.Errorf("cancelled at %s: went on to the end", step)
				}
				if reads := d.steps["records"] - before; reads > 10 {
					t.Errorf("cancelled at %s: %d more reads", step, reads)
				}
				d.setFault(nil)
				if v := mustVerify(t, verifier, 1); !v.Valid {
					t.Errorf("after it: %+v", v)
				}
			})
		}
	}
}

func TestVerifyProgress(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, 600)
	last, calls := int64(0), 0
	_, err := chain.NewVerifier(d, 2).Verify(t.Context(), 1, func(done, total int64) {
		if done <= last || total != 600 {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
		calls++
	})
	if err != nil || last != 600 || calls < 2 {
		t.Errorf("%d calls, the last at %d; %v", calls, last, err)
	}
}

// A verifier can be used concurrently, on growing chains and a changed one.
func TestVerifyConcurrently(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2, 3)
	for c := range int64(3) {
		grow(t, d, c+1, 0, 300)
	}
	d.tamper(3, func(s *stored) { s.rows[77].Hash[0] ^= 1 })
	verifier := chain.NewVerifier(d, 2)
	l := chain.NewLog(d)
	stop := run(t, l)
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for range 4 {
				c := int64(1 + g%3)
				v, err := verifier.Verify(t.Context(), c, nil)
				if err != nil || v.Valid != (c != 3) || c == 3 && v.FailedAt != 77 || c != 3 && v.Length < 300 {
					t.Errorf("chain %d: %+v, %v", c, v, err)
				}
			}
		})
	}
	appendAll(t, l, 1, 300, 400)
	all.Wait()
	stop()
}

// A verification detects a change of any bit of a row, also of rows verified before.
func TestVerifyRemembersBytes(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	grow(t, d, 1, 0, 10)
	verifier := chain.NewVerifier(d, 1)
	mustVerify(t, verifier, 1)
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		i := random.IntN(10)
		good := d.chains[1].rows[i]
		d.tamper(1, func(s *stored) {
			r := &s.rows[i]
			r.Payload, r.Delegation = bytes.Clone(r.Payload), bytes.Clone(r.Delegation)
			bits := [][]byte{r.Hash[:], r.Signature[:], r.Payload}
			if len(r.Delegation) > 0 {
				bits = append(bits, r.Delegation)
			}
			field := bits[random.IntN(len(bits))]
			field[random.IntN(len(field))] ^= 1 << random.IntN(8)
		})
		if v := mustVerify(t, verifier, 1); v.Valid {
			spelled := d.chains[1].rows[i]
			reseal(&spelled, key)
			if spelled.Hash != good.Hash { // else a blank became another blank
				t.Fatalf("a flipped bit in record %d was not seen", i)
			}
		} else if v.FailedAt != int64(i) {
			t.Fatalf("%+v, want failure at %d", v, i)
		}
		d.tamper(1, func(s *stored) { s.rows[i] = good })
		if v := mustVerify(t, verifier, 1); !v.Valid {
			t.Fatalf("mended: %+v", v)
		}
	}
}

// recalled returns a verifier that remembers what another has verified, as after a restart.
func recalled(d *disk, from *chain.Verifier) *chain.Verifier {
	known, _ := from.Prefixes()
	v := chain.NewVerifier(d, 1)
	v.Recall(known)
	return v
}

// What was verified before is recalled for exactly the same bytes, keys and owner: whatever was
// changed meanwhile is found, and a signature that was not checked yet is.
func TestRecalledPrefixNeverHidesAChange(t *testing.T) {
	t.Parallel()
	const n = 600
	original := newDisk(1)
	grow(t, original, 1, 0, n)
	first := chain.NewVerifier(original, 1)
	mustVerify(t, first, 1)
	for name, c := range map[string]struct {
		change func(*stored)
		at     int64
	}{
		"a payload":            {func(s *stored) { edit(&s.rows[7].Payload, `"z"`, `"y"`) }, 7},
		"a signature":          {func(s *stored) { s.rows[8].Signature[3] ^= 1 }, 8},
		"a record and its key": {func(s *stored) { r := s.rows[9].Clone(); r.Timestamp = s.rows[10].Timestamp + " "; s.rows[9] = r }, 9},
		"a record that another key has signed": {func(s *stored) {
			r := s.rows[n-1].Clone()
			edit(&r.Payload, `"z"`, `"y"`)
			reseal(&r, otherKey)
			s.rows[n-1] = r
		}, n - 1},
		"a stored node":          {func(s *stored) { h := s.nodes[[2]int64{8, 0}]; h[0] ^= 1; s.nodes[[2]int64{8, 0}] = h }, 255},
		"a node of the log tree": {func(s *stored) { h := s.log[[2]int64{8, 1}]; h[0] ^= 1; s.log[[2]int64{8, 1}] = h }, 511},
		"the key":                {func(s *stored) { s.keys = signingBy(otherKey) }, 0},
		"the key, from a record on": {func(s *stored) {
			s.keys.set = append(s.keys.set, chain.KeyRange{From: 300, Key: otherKey.Public().(ed25519.PublicKey)})
		}, 300},
		"the proof of the key":    {func(s *stored) { s.keys.set = chain.KeySet{{Key: public, Flaw: "the key is not proven"}} }, 0},
		"the last record is gone": {func(s *stored) { s.rows = s.rows[:n-1] }, n - 1},
		"the root of the log":     {func(s *stored) { s.head.LogRoot[0] ^= 1 }, n - 1},
	} {
		d := original.clone()
		d.tamper(1, c.change)
		v := mustVerify(t, recalled(d, first), 1)
		fresh := mustVerify(t, chain.NewVerifier(d, 1), 1)
		if v.Valid || v.FailedAt != c.at || v != fresh {
			t.Errorf("%s: %+v, want a failure at %d; without memory %+v", name, v, c.at, fresh)
		}
	}
	// Records that came later are checked.
	d := original.clone()
	grow(t, d, 1, n, n+10)
	d.tamper(1, func(s *stored) { s.rows[n+4].Signature[0] ^= 1 })
	if v := mustVerify(t, recalled(d, first), 1); v.Valid || v.FailedAt != n+4 {
		t.Errorf("a later record: %+v", v)
	}
	// The memory of another chain is of other bytes.
	other := newDisk(1)
	grow(t, other, 1, 0, n)
	other.tamper(1, func(s *stored) {
		r := s.rows[5].Clone()
		edit(&r.Payload, `"z"`, `"y"`)
		s.rows[5] = r
	})
	if v := mustVerify(t, recalled(other, first), 1); v.Valid || v.FailedAt != 5 {
		t.Errorf("another database: %+v", v)
	}
	if v := mustVerify(t, recalled(original.clone(), first), 1); !v.Valid || v.Length != n {
		t.Errorf("the same database: %+v", v)
	}
}

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
			t.Errorf("the short chain took %v together with three long ones", took[4])
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
				t.Errorf("%d runs read for %v of %v during appends", runs, reading, took)
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
