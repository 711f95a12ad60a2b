package chain_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"attestd/chain"
)

// watchShared is watch for chains that other servers write too.
func watchShared(t *testing.T, d *disk) *watching { return watchAs(t, d, true) }

// verifications counts verifications of whole chains of at least 256 records.
func (d *disk) verifications() int { return d.count("hashes") }

// Records of two servers are delivered once and in order, for any order of notices and own commits,
// and repeated notices. The chain is verified once, at the start.
func TestSharedMonitorFollows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 300)
		w := watchShared(t, d)
		w.Grown(1, 299, 300)
		w.want(t, w.events(), 1, 299, 300, valid)
		before := d.verifications()

		grow(t, d, 1, 300, 310)
		w.Grown(1, 300, 305)
		w.Grown(1, 305, 310)
		w.want(t, w.events(), 1, 300, 310, valid)
		appendAll(t, w.Log, 1, 310, 312)
		w.want(t, w.events(), 1, 310, 312, valid)
		w.Grown(1, 300, 310)
		w.Grown(1, 310, 312)
		w.want(t, w.events(), 1, 0, 0, valid)

		grow(t, d, 1, 312, 320)
		appendAll(t, w.Log, 1, 320, 322) // before the notice
		w.want(t, w.events(), 1, 312, 322, valid)
		w.Grown(1, 312, 320)
		w.Grown(1, 320, 322)
		w.want(t, w.events(), 1, 0, 0, valid)

		grow(t, d, 1, 322, 900)
		w.Grown(1, 890, 900) // those before it were left out
		w.want(t, w.events(), 1, 322, 900, valid)
		if d.verifications() != before {
			t.Error("the chain was verified from its beginning again")
		}
	})
}

// The monitor verifies each record and head that another server writes. An invalid one makes the
// whole chain invalid, permanently.
func TestSharedMonitorVerifies(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *stored)
		failed int64
	}{
		"payload":       {func(s *stored) { edit(&s.rows[305].Payload, `"z"`, `"y"`) }, 305},
		"another's key": {func(s *stored) { reseal(&s.rows[305], otherKey); rebuild(s) }, 305},
		"timestamp": {func(s *stored) {
			s.rows[300].Timestamp = "1999-01-01T00:00:00.000Z"
			reseal(&s.rows[300], key)
			rebuild(s)
		}, 300},
		"timestamp within": {func(s *stored) {
			s.rows[307].Timestamp = "1999-01-01T00:00:00.000Z"
			reseal(&s.rows[307], key)
			rebuild(s)
		}, 307},
		"a record is missing": {func(s *stored) { s.rows = append(s.rows[:303:303], s.rows[304:]...) }, 303},
		"root":                {func(s *stored) { s.head.Root[0] ^= 1 }, 309},
		"beyond the head":     {func(s *stored) { s.head.Length = 305 }, 305},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1)
				grow(t, d, 1, 0, 300)
				w := watchShared(t, d)
				appendAll(t, w.Log, 1, 300, 300)
				w.Grown(1, 299, 300)
				w.want(t, w.events(), 1, 299, 300, valid)
				grow(t, d, 1, 300, 310)
				d.tamper(1, c.change)
				w.Grown(1, 300, 310)
				events := w.events()
				if len(events) < 9 {
					t.Fatalf("%d events", len(events))
				}
				for _, e := range events {
					if e.Verdict.Valid || e.Verdict.FailedAt != c.failed {
						t.Errorf("record %d: %+v", e.Record.Index, e.Verdict)
					}
				}
				v := w.EventReader(1, 290)
				resumed, err := v.Events(t.Context(), d.readFrom(1, 64))
				if err != nil || len(resumed) == 0 || resumed[0].Verdict.Valid || resumed[0].Verdict.FailedAt != c.failed {
					t.Errorf("resumed: %d events, %v", len(resumed), err)
				}
			})
		})
	}
}

// Without listeners nothing is read. A new listener gets later records; the records in between are
// verified, but not the whole chain.
func TestSharedMonitorWithoutListeners(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 300)
		w := watchShared(t, d)
		w.Grown(1, 299, 300)
		w.want(t, w.events(), 1, 299, 300, valid)
		w.Listen(false)
		reads, whole := d.count("records")+d.count("tip"), d.verifications()
		grow(t, d, 1, 300, 900)
		w.Grown(1, 300, 900)
		appendAll(t, w.Log, 1, 900, 905)
		w.want(t, w.events(), 1, 0, 0, valid)
		if again := d.count("records") + d.count("tip"); again != reads {
			t.Errorf("read %d times", again-reads)
		}
		w.Listen(true)
		appendAll(t, w.Log, 1, 905, 906)
		grow(t, d, 1, 906, 910)
		w.Grown(1, 906, 910)
		w.want(t, w.events(), 1, 905, 910, valid)
		if d.verifications() != whole {
			t.Error("the chain was verified from its beginning again")
		}

		w.Listen(false)
		grow(t, d, 1, 910, 950)
		d.tamper(1, func(s *stored) { edit(&s.rows[930].Payload, `"z"`, `"y"`) })
		w.Grown(1, 910, 950)
		w.Listen(true)
		grow(t, d, 1, 950, 951)
		w.Grown(1, 950, 951)
		w.want(t, w.events(), 1, 950, 951, 930)
	})
}

// A temporary read error causes no repeated verification and loses no event.
func TestSharedMonitorReadErrors(t *testing.T) {
	for _, step := range []string{"keys", "tip", "records"} {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1, 2)
				grow(t, d, 1, 0, 300)
				grow(t, d, 2, 0, 300)
				w := watchShared(t, d)
				w.Grown(1, 300, 300)
				appendAll(t, w.Log, 1, 300, 301)
				appendAll(t, w.Log, 2, 300, 301)
				w.events()
				whole := d.verifications()
				grow(t, d, 1, 301, 310)
				grow(t, d, 2, 301, 310)
				away := errDisk
				d.setFault(func(s string, _ int64) error {
					if s == step {
						return away
					}
					return nil
				})
				w.Grown(1, 301, 310)
				w.Grown(2, 301, 310)
				time.Sleep(3500 * time.Millisecond)
				w.want(t, w.events(), 1, 0, 0, valid)
				d.setFault(nil)
				time.Sleep(2 * time.Second)
				byChain := map[int64][]chain.Event{}
				for _, e := range w.events() {
					byChain[e.Chain] = append(byChain[e.Chain], e)
				}
				w.want(t, byChain[1], 1, 301, 310, valid)
				w.want(t, byChain[2], 2, 301, 310, valid)
				if d.verifications() != whole {
					t.Error("a chain was verified from its beginning again")
				}
			})
		})
	}
}

// A resumed stream reads another server's records before their notice. They are verified one by
// one, and the whole chain once. Later events begin with the notice.
func TestSharedEventReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 1400)
		w := watchShared(t, d)
		w.want(t, w.resumed(t, 1, 1390), 1, 1390, 1400, valid)
		reads := d.count("hashes")
		w.Grown(1, 1380, 1400) // was read before the notice came
		w.want(t, w.events(), 1, 1380, 1400, valid)
		if again := d.count("hashes") - reads; again > 20 {
			t.Errorf("%d reads of nodes: that is the whole chain", again)
		}
		grow(t, d, 1, 1400, 1500)
		for _, from := range []int64{0, 1, 256, 257, 1399, 1400, 1401, 1499, 1500} {
			w.want(t, w.resumed(t, 1, from), 1, int(from), 1500, valid)
		}
		w.Grown(1, 1400, 1500)
		w.want(t, w.events(), 1, 1400, 1500, valid)

		v := w.EventReader(1, 1450)
		d.tamper(1, func(s *stored) { edit(&s.rows[1470].Payload, `"z"`, `"y"`) })
		events, err := v.Events(t.Context(), d.readFrom(1, 64))
		if err != nil || len(events) == 0 || events[0].Verdict.Valid || events[0].Verdict.FailedAt != 1470 {
			t.Errorf("%d events, %v", len(events), err)
		}
	})
}

// A read error does not make a chain invalid.
func TestSharedEventReaderThatFails(t *testing.T) {
	for _, step := range []string{"keys", "records"} {
		test := func(t *testing.T) {
			d := newDisk(1)
			grow(t, d, 1, 0, 300)
			w := watchShared(t, d)
			v := w.EventReader(1, 7)
			if _, err := v.Events(t.Context(), d.readFrom(1, 64)); err != nil {
				t.Fatal(err)
			}
			whole := d.verifications()
			d.setFault(func(s string, _ int64) error {
				if s == step {
					return errDisk
				}
				return nil
			})
			if _, err := v.Events(t.Context(), d.readFrom(1, 64)); !errors.Is(err, errDisk) {
				t.Errorf("%v", err)
			}
			d.setFault(nil)
			events, err := v.Events(t.Context(), d.readFrom(1, 64))
			if err != nil {
				t.Fatal(err)
			}
			w.want(t, events, 1, 71, 135, valid)
			if d.verifications() != whole {
				t.Error("the chain was verified from its beginning again")
			}
		}
		t.Run(step, func(t *testing.T) { bubble(t, test) })
	}
}

// For any order of notices, own writes, listeners and resumed streams, each record committed with a
// listener is delivered once, in order, with its root.
func TestSharedMonitorInAnyOrder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run("", func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 11))
				d := newDisk(1)
				start := r.IntN(300)
				grow(t, d, 1, 0, start)
				w := watchShared(t, d)
				length, heard := start, start // of the chain, and of what the monitor was given
				listening, since := true, start
				hear := func(to int) {
					w.Grown(1, int64(heard), int64(to))
					heard = max(heard, to)
				}
				for range 60 {
					n := 1 + r.IntN(20)
					switch r.IntN(7) {
					case 0, 1: // another server writes
						grow(t, d, 1, length, length+n)
						length += n
					case 2: // this one does
						hear(length)
						appendAll(t, w.Log, 1, length, length+n)
						length += n
						heard = length
					case 3: // a notice comes, and an old one again
						hear(heard + r.IntN(length-heard+1))
						w.Grown(1, int64(heard/2), int64(heard))
					case 4:
						from := r.IntN(length + 1)
						w.want(t, w.resumed(t, 1, int64(from)), 1, from, length, valid)
					case 5:
						if r.IntN(3) > 0 {
							continue
						}
						if listening {
							w.want(t, w.events(), 1, since, heard, valid)
						} else if len(w.events()) > 0 {
							t.Fatal("events without a listener")
						}
						listening, since = !listening, heard
						w.Listen(listening)
					case 6:
						if listening {
							w.want(t, w.events(), 1, since, heard, valid)
							since = heard
						}
					}
				}
				if listening {
					hear(length)
					w.want(t, w.events(), 1, since, length, valid)
				}
			})
		})
	}
}
