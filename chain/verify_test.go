package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// fixtureSize gives two stored nodes, and 88 records that none covers.
const fixtureSize = 600

func swapRows(s *stored, i, j int) {
	s.rows[i], s.rows[j] = s.rows[j], s.rows[i]
	s.rows[i].Index, s.rows[j].Index = s.rows[j].Index, s.rows[i].Index
}

// rebuild makes nodes and head fit the rows, as an intruder would who thinks of everything but has no key.
func rebuild(s *stored) {
	head := s.head
	s.head, s.nodes = chain.EmptyHead(), make(map[[2]int64]chain.Hash)
	var frontier []level
	for _, r := range s.rows {
		frontier = append(frontier, level{r.Hash, 0})
		for n := len(frontier); n > 1 && frontier[n-1].height == frontier[n-2].height; n-- {
			left, right := frontier[n-2], frontier[n-1]
			joined := level{sha256Sum(left.hash.String() + right.hash.String()), left.height + 1}
			frontier = append(frontier[:n-2], joined)
			if joined.height%8 == 0 {
				s.nodes[[2]int64{int64(joined.height), r.Index >> joined.height}] = joined.hash
			}
		}
	}
	for _, f := range frontier {
		s.head.Frontier = append(s.head.Frontier, f.hash)
	}
	root := frontier[len(frontier)-1].hash
	for i := len(frontier) - 2; i >= 0; i-- {
		root = sha256Sum(frontier[i].hash.String() + root.String())
	}
	s.head.Root, s.head.Length, s.head.Timestamp = root, int64(len(s.rows)), head.Timestamp
}

type level struct {
	hash   chain.Hash
	height int
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
		{"payload gone", func(s *stored) { s.rows[300].Payload = nil }, 300, "canonical form"},
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

		// by one who knows what hangs together
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
		{"second node gone", func(s *stored) { delete(s.nodes, [2]int64{8, 1}) }, 511, "missing"},
		{"root edited", func(s *stored) { s.head.Root[0] ^= 1 }, 599, "root"},
		{"frontier edited", func(s *stored) { s.head.Frontier = s.head.Frontier[:1] }, 599, "frontier"},
		{"time of the head edited", func(s *stored) { s.head.Timestamp = "" }, 599, "time"},
		{"length of the head raised", func(s *stored) { s.head.Length = 602 }, 600, "missing"},
		{"length of the head lowered", func(s *stored) { s.head.Length = 590 }, 590, "beyond"},
		{"length of the head negative", func(s *stored) { s.head.Length = -1 }, 0, "negative"},
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
			for name, verifier := range map[string]*chain.Verifier{
				"one worker": chain.NewVerifier(d, 1), "three workers": chain.NewVerifier(d, 3), "verified before": warm, "again": warm,
			} {
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
	verdict, err := v.Verify(t.Context(), c, public, nil)
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

// What is signed is the canonical form: another spelling of the same value is no tampering.
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

// Any set of edited rows: the first is found.
func TestVerifyFirstOfMany(t *testing.T) {
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
	v, err := verifier.Verify(t.Context(), 1, otherKey.Public().(ed25519.PublicKey), nil)
	if err != nil || v.Valid || v.FailedAt != 0 {
		t.Errorf("%+v, %v: what was verified under one key must not pass under another", v, err)
	}
	if _, err := verifier.Verify(t.Context(), 1, nil, nil); err == nil {
		t.Error("no error without a key")
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

// A chain grows while it is verified again and again; the verdict is always about the head of one moment.
func TestVerifyGrowingChain(t *testing.T) {
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

// Large records: blocks end by size, the result is the same.
func TestVerifyLargeRecords(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	l := chain.NewLog(d, nil)
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
		t.Errorf("%d reads: blocks are not bounded by size", d.steps["records"])
	}
	d.tamper(1, func(s *stored) { s.rows[13].Signature[0] ^= 1 })
	if v := mustVerify(t, verifier, 1); v.Valid || v.FailedAt != 13 {
		t.Errorf("%+v", v)
	}
}

// What cannot be read is an error and never a verdict, at whatever read it happens.
func TestVerifyReadErrors(t *testing.T) {
	t.Parallel()
	original := newDisk(1)
	grow(t, original, 1, 0, 520)
	for _, step := range []string{"tip", "records", "hashes"} {
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
				v, err := verifier.Verify(t.Context(), 1, public, nil)
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
	if _, err := chain.NewVerifier(original, 1).Verify(t.Context(), 9, public, nil); !errors.Is(err, errNotFound) {
		t.Errorf("a chain that is not there: %v", err)
	}
}

// A failure before an unreadable place is a verdict: it was read.
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
				v, err := verifier.Verify(ctx, 1, public, nil)
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
	_, err := chain.NewVerifier(d, 2).Verify(t.Context(), 1, public, func(done, total int64) {
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

// One verifier serves many at once, on chains that grow and one that is tampered with.
func TestVerifyConcurrently(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2, 3)
	for c := range int64(3) {
		grow(t, d, c+1, 0, 300)
	}
	d.tamper(3, func(s *stored) { s.rows[77].Hash[0] ^= 1 })
	verifier := chain.NewVerifier(d, 2)
	l := chain.NewLog(d, nil)
	stop := run(t, l)
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for range 4 {
				c := int64(1 + g%3)
				v, err := verifier.Verify(t.Context(), c, public, nil)
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

// Nothing of what was verified before is believed without the bytes: each bit of a row counts.
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
