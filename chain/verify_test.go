package chain_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

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
