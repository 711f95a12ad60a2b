package chain_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"attestd/chain"
)

// readFrom reads records of a chain as a reader asks for them, at most so many at once.
func (d *disk) readFrom(c int64, most int64) func(from int64) ([]chain.Record, int64, error) {
	return func(from int64) (records []chain.Record, next int64, err error) {
		head, _, err := d.Tip(context.Background(), c)
		if err != nil {
			return nil, from, err
		}
		next = min(head.Length, from+most)
		err = d.Records(context.Background(), c, from, next, func(r *chain.Record) error {
			records = append(records, r.Clone())
			return nil
		})
		return records, next, err
	}
}

// resumed are the events of a chain from an index on.
func (w *watching) resumed(t *testing.T, c, from int64) (events []chain.Event) {
	t.Helper()
	v := w.EventReader(c, from)
	for {
		some, err := v.Events(t.Context(), w.disk.readFrom(c, 64))
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			return events
		}
		events = append(events, some...)
	}
}

// For any index, the records have the roots from the time of their append. All callers share one
// verification of the chain.
func TestEventReaderReturnsRootsAtAppend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const n = 1400
		d := newDisk(1)
		grow(t, d, 1, 0, n)
		w := watch(t, d)
		w.want(t, w.resumed(t, 1, 0), 1, 0, n, valid)
		reads := d.count("keys")
		for _, from := range []int64{0, 1, 255, 256, 257, 511, 1023, 1024, 1025, n - 1, n} {
			w.want(t, w.resumed(t, 1, from), 1, int(from), n, valid)
		}
		appendAll(t, w.Log, 1, n, n+10)
		w.want(t, w.resumed(t, 1, n-5), 1, n-5, n+10, valid)
		w.want(t, w.events(), 1, n, n+10, valid)
		if d.count("keys") != reads {
			t.Error("a chain that is known was verified again")
		}
	})
}

// A change that no reader has noticed is noticed at the next write; from then on no record of the
// chain, old or new, is called valid.
func TestEventReaderOfAChangedChain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1, 2)
		grow(t, d, 1, 0, 300)
		w := watch(t, d)
		w.want(t, w.resumed(t, 1, 290), 1, 290, 300, valid)
		good := d.row(1, 5)
		d.tamper(1, func(s *stored) { edit(&s.rows[5].Payload, `"z"`, `"y"`) })
		appendAll(t, w.Log, 2, 0, 1) // of another chain
		w.want(t, w.resumed(t, 1, 290), 1, 290, 300, 5)
		appendAll(t, w.Log, 1, 300, 303)
		w.events()
		w.want(t, w.resumed(t, 1, 0), 1, 0, 303, 5)
		d.tamper(1, func(s *stored) { s.rows[5] = good })
		w.Invalidate(1) // where nothing is written
		w.want(t, w.resumed(t, 1, 0), 1, 0, 303, valid)
	})
}

// What is changed while somebody reads it is not called valid either: neither where a write shows
// it, nor where only what is read does.
func TestEventReaderWhileTheDiskChanges(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *stored)
		shows  bool // by a write
		failed int64
	}{
		"a payload, and a write shows it": {func(s *stored) { edit(&s.rows[5].Payload, `"z"`, `"y"`) }, true, 5},
		"a row is gone":                   {func(s *stored) { s.rows = slices.Delete(slices.Clone(s.rows), 150, 151) }, false, 150},
		"a node":                          {func(s *stored) { s.nodes[[2]int64{8, 0}] = chain.Hash{1} }, true, 255},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1, 2)
				grow(t, d, 1, 0, 300)
				w := watch(t, d)
				w.resumed(t, 1, 300)
				v := w.EventReader(1, 100)
				read, once := d.readFrom(1, 64), sync.OnceFunc(func() {
					d.tamper(1, test.change)
					d.mu.Lock()
					d.external = test.shows
					d.mu.Unlock()
					if test.shows {
						appendAll(t, w.Log, 2, 0, 1)
					}
				})
				events, err := v.Events(t.Context(), func(from int64) ([]chain.Record, int64, error) {
					once()
					return read(from)
				})
				if err != nil || len(events) == 0 {
					t.Fatalf("%d events, %v", len(events), err)
				}
				for _, e := range events {
					if e.Verdict.Valid || e.Verdict.FailedAt != test.failed {
						t.Errorf("record %d: %+v", e.Record.Index, e.Verdict)
					}
				}
			})
		})
	}
}

// A disk that cannot be read is an error, and no verdict; a verification that one has given up is
// made by the next who waits for it.
func TestEventReaderThatFails(t *testing.T) {
	for _, step := range []string{"keys", "tip", "records", "hashes"} {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := newDisk(1)
				grow(t, d, 1, 0, 300)
				w := watch(t, d)
				d.setFault(func(s string, _ int64) error {
					if s == step {
						return errDisk
					}
					return nil
				})
				v := w.EventReader(1, 7)
				if events, err := v.Events(t.Context(), d.readFrom(1, 64)); err == nil {
					t.Errorf("%d events", len(events))
				}
				d.setFault(nil)
				events, err := v.Events(t.Context(), d.readFrom(1, 64))
				if err != nil {
					t.Fatal(err)
				}
				w.want(t, events, 1, 7, 71, valid)
			})
		})
	}
	t.Run("given up", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d := newDisk(1)
			grow(t, d, 1, 0, 300)
			w := watch(t, d)
			slow := make(chan struct{})
			d.setFault(func(s string, _ int64) error {
				if s == "keys" {
					<-slow
				}
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			ask := func(ctx context.Context, answer chan error) {
				_, err := w.EventReader(1, 0).Events(ctx, d.readFrom(1, 64))
				answer <- err
			}
			go ask(ctx, first)
			go ask(t.Context(), second)
			cancel()
			close(slow)
			if err := <-first; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if err := <-second; err != nil {
				t.Error(err)
			}
		})
	})
}

// A reader that is in use notices a change that was not reported as a write, once the chain was
// verified elsewhere and its verdict discarded.
func TestEventReaderLearnsOfAnInvalidatedChain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		grow(t, d, 1, 0, 300)
		w := watch(t, d)
		v := w.EventReader(1, 290)
		next := func() chain.Event {
			t.Helper()
			events, err := v.Events(t.Context(), d.readFrom(1, 1))
			if err != nil || len(events) != 1 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			return events[0]
		}
		if e := next(); !e.Verdict.Valid {
			t.Fatalf("%+v", e.Verdict)
		}
		d.tamper(1, func(s *stored) { edit(&s.rows[5].Payload, `"z"`, `"y"`) })
		d.mu.Lock()
		d.external = false // the disk itself has changed the record
		d.mu.Unlock()
		w.Invalidate(1)
		if e := next(); e.Verdict.Valid || e.Verdict.FailedAt != 5 {
			t.Errorf("%+v", e.Verdict)
		}
	})
}
