package chain_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// appendLater starts an append and returns when it is queued, so that the order is known. It
// requires a synctest bubble.
func appendLater(l *chain.Log, d chain.Draft) (answer func() (chain.Record, error)) {
	return appendLaterIn(context.Background(), l, d)
}

// appendLaterIn is appendLater for a caller who leaves when ctx ends.
func appendLaterIn(ctx context.Context, l *chain.Log, d chain.Draft) (answer func() (chain.Record, error)) {
	type result struct {
		record chain.Record
		err    error
	}
	done := make(chan result, 1)
	go func() {
		r, err := l.Append(ctx, d)
		done <- result{r, err}
	}()
	synctest.Wait()
	return func() (chain.Record, error) { r := <-done; return r.record, r.err }
}

// All appends that arrive during a sync form the next batch. Within a chain, records are in order
// of arrival.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1, 2)
		syncing := make(chan struct{})
		d.setFault(func(step string, _ int64) error {
			if step == "commit" {
				<-syncing
			}
			return nil
		})
		l := chain.NewLog(d)
		stop := run(t, l)

		// the first batch, blocked in its sync
		answers := []func() (chain.Record, error){appendLater(l, draft(1, 0))}
		for i := 1; i < 10; i++ {
			answers = append(answers, appendLater(l, draft(int64(1+i%2), i)))
		}
		close(syncing)
		next := map[int64]int64{}
		for i, answer := range answers {
			r, err := answer()
			c := int64(1 + i%2)
			if err != nil || r.Index != next[c] || string(r.Payload) != string(draft(c, i).Payload) {
				t.Errorf("append %d: index %d, want %d; %s, %v", i, r.Index, next[c], r.Payload, err)
			}
			next[c]++
		}
		stop()
		if !slices.Equal(d.batches, []int{1, 9}) {
			t.Errorf("batches of %v records, want 1 and 9", d.batches)
		}
		for c, n := range next {
			if v := verify(t, d, c); !v.Valid || v.Length != n {
				t.Errorf("chain %d: %+v", c, v)
			}
		}
	})
}

// A transaction is bounded in records and in bytes.
func TestBatchIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payload int
		drafts  int
		want    []int
	}{
		"records": {10, 2500, []int{1024, 1024, 452}},
		"bytes":   {5 << 20, 9, []int{4, 4, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1)
				l := chain.NewLog(d)
				big := draft(1, 0)
				big.Payload = make([]byte, c.payload) // not parsed here
				for range c.drafts {
					go l.Append(t.Context(), big)
				}
				synctest.Wait()
				run(t, l)()
				if !slices.Equal(d.batches, c.want) {
					t.Errorf("batches of %v, want %v", d.batches, c.want)
				}
			})
		})
	}
}

// The timestamps of a chain never decrease, even if the clock is set back.
func TestTimestampsNeverGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		l := chain.NewLog(d)
		stop := run(t, l)
		first, _ := l.Append(t.Context(), draft(1, 0))
		time.Sleep(time.Minute)
		second, _ := l.Append(t.Context(), draft(1, 1))
		stop()

		future := chain.FormatTime(time.Now().Add(time.Hour))
		d.tamper(1, func(s *stored) {
			s.head.Timestamp, s.rows[1].Timestamp = future, future
			reseal(&s.rows[1], key)
		})
		l = chain.NewLog(d)
		stop = run(t, l)
		third, _ := l.Append(t.Context(), draft(1, 2))
		time.Sleep(2 * time.Hour)
		fourth, _ := l.Append(t.Context(), draft(1, 3))
		stop()
		if first.Timestamp != "2000-01-01T00:00:00.000Z" || second.Timestamp != "2000-01-01T00:01:00.000Z" {
			t.Errorf("times %s and %s are not the server's", first.Timestamp, second.Timestamp)
		}
		if third.Timestamp != future {
			t.Errorf("time %s, want that of the record before, %s", third.Timestamp, future)
		}
		if fourth.Timestamp != "2000-01-01T02:01:00.000Z" {
			t.Errorf("time %s: the clock has caught up", fourth.Timestamp)
		}
	})
}

// After the end of Run's context, all waiting appends return: the record is durable, or the error
// is ErrClosed.
func TestRunAnswersAllCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		syncing := make(chan struct{})
		d.setFault(func(step string, _ int64) error {
			if step == "commit" {
				<-syncing
			}
			return nil
		})
		l := chain.NewLog(d)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Run(ctx, time.Now, func([]chain.Extension, bool) {}) }()
		var answers []func() (chain.Record, error)
		for i := range 5 {
			answers = append(answers, appendLater(l, draft(1, i)))
		}
		cancel()
		synctest.Wait() // Run is still in the first sync
		close(syncing)
		for i, answer := range answers {
			if r, err := answer(); err != nil || r.Index != int64(i) {
				t.Errorf("append %d: index %d, %v", i, r.Index, err)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, err := l.Append(t.Context(), draft(1, 9)); !errors.Is(err, chain.ErrClosed) {
			t.Errorf("append after the end: %v", err)
		}
	})
}

// In a race between appends and Close, exactly the acknowledged records are on disk.
func TestCloseRace(t *testing.T) {
	t.Parallel()
	for range 50 {
		d := newDisk(1)
		l := chain.NewLog(d)
		stop := run(t, l)
		var mu sync.Mutex
		durable := 0
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				for i := 0; ; i++ {
					_, err := l.Append(t.Context(), draft(1, i))
					if errors.Is(err, chain.ErrClosed) {
						return
					}
					mu.Lock()
					durable++
					enough := durable == 20
					mu.Unlock()
					if err != nil {
						t.Errorf("append: %v", err)
					}
					if enough {
						go stop()
					}
				}
			})
		}
		all.Wait()
		if len(d.chains[1].rows) != durable {
			t.Fatalf("%d records on disk, %d acknowledged", len(d.chains[1].rows), durable)
		}
	}
}

// An append ends with its context. In the queue it is withdrawn and has no effect. In a batch its
// outcome is unknown.
func TestAppendEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		syncing := make(chan struct{})
		d.setFault(func(step string, _ int64) error {
			if step == "commit" {
				<-syncing
			}
			return nil
		})
		l := chain.NewLog(d)
		stop := run(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error, 2)
		for i := range 2 { // the first is in a batch, the second in the queue
			go func() {
				_, err := l.Append(ctx, draft(1, i))
				errs <- err
			}()
			synctest.Wait()
		}
		first, second := <-errs, <-errs
		if errors.Is(first, chain.ErrUnknown) {
			first, second = second, first
		}
		if first != context.DeadlineExceeded {
			t.Errorf("the append that waited: %v", first)
		}
		if !errors.Is(second, chain.ErrUnknown) || !errors.Is(second, context.DeadlineExceeded) {
			t.Errorf("the append that was on its way: %v", second)
		}
		if _, err := l.Append(ctx, draft(1, 2)); err != context.DeadlineExceeded {
			t.Errorf("append with a dead context: %v", err)
		}
		close(syncing)
		stop()
		if rows := d.chains[1].rows; len(rows) != 1 || string(rows[0].Payload) != string(draft(1, 0).Payload) {
			t.Errorf("%d records: only the call that a batch had taken may have an effect", len(rows))
		}
	})
}

// Close ends the log like the end of Run's context, and waits for Run. Without Run, appends fail
// and Close returns.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		l := chain.NewLog(d)
		stop := run(t, l)
		appendAll(t, l, 1, 0, 1)
		l.Close()
		l.Close()
		if _, err := l.Append(t.Context(), draft(1, 1)); err != chain.ErrClosed {
			t.Errorf("append after Close: %v", err)
		}
		stop()

		l = chain.NewLog(d)
		answer := appendLater(l, draft(1, 1))
		l.Close()
		if _, err := answer(); err != chain.ErrClosed {
			t.Errorf("append to a log that nobody ran: %v", err)
		}
		run(t, l)()
		if n := len(d.chains[1].rows); n != 1 {
			t.Errorf("%d records", n)
		}
	})
}

// A chain with an unreadable or inconsistent head does not fail the other appends in the batch.
func TestUnreadableHead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*disk)
		want    error
	}{
		"disk fails": {func(d *disk) {
			d.fault = func(step string, c int64) error {
				if step == "head" && c == 2 {
					return errDisk
				}
				return nil
			}
		}, errDisk},
		"no such chain":           {func(d *disk) { delete(d.chains, 2) }, errNotFound},
		"root does not fit":       {func(d *disk) { d.chains[2].head.Root[0] ^= 1 }, nil},
		"frontier does not match": {func(d *disk) { d.chains[2].head.Frontier[0][0] ^= 1 }, nil},
		"length does not fit":     {func(d *disk) { d.chains[2].head.Length = 8 }, nil},
		"length is negative":      {func(d *disk) { d.chains[2].head.Length = -1 }, nil},
		"frontier has other size": {func(d *disk) { d.chains[2].head.Frontier = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1, 2, 3)
				grow(t, d, 2, 0, 7)
				c.prepare(d)
				l := chain.NewLog(d)
				var answers []func() (chain.Record, error)
				for i := range 6 {
					answers = append(answers, appendLater(l, draft(int64(1+i%3), i)))
				}
				stop := run(t, l)
				for i, answer := range answers {
					_, err := answer()
					if bad := i%3 == 1; bad != (err != nil) || c.want != nil && bad && !errors.Is(err, c.want) {
						t.Errorf("append to chain %d: %v", 1+i%3, err)
					}
				}
				stop()
				if n := len(d.chains[1].rows) + len(d.chains[3].rows); n != 4 {
					t.Errorf("%d records, want 4", n)
				}
			})
		})
	}
}

// Each transaction is described once, with its changes, its records and who asked for them, durable
// or not. One that only the error of a change ends is not described.
func TestTransactionsAreObserved(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2)
	l := chain.NewLog(d)
	var seen []chain.Transacted
	l.Observe(func(t chain.Transacted) { seen = append(seen, t) })
	stop := runWith(t, l, func([]chain.Extension, bool) {})
	type name struct{}
	asks := context.WithValue(t.Context(), name{}, "asks")
	if _, err := l.AppendAll(asks, []chain.Draft{draft(1, 0), draft(1, 1), draft(1, 2)}); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	if _, err := l.Write(asks, func() ([]chain.Draft, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for _, step := range []string{"begin", "commit"} {
		d.setFault(fail(1, step, errDisk))
		if _, err := l.Append(asks, draft(2, 0)); !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
	}
	stop()
	if len(seen) != 3 {
		t.Fatalf("observed %+v", seen)
	}
	for i, want := range []chain.Transacted{{Changes: 1, Records: 3}, {Changes: 1, Err: errDisk}, {Changes: 1, Err: errDisk}} {
		is := seen[i]
		if is.Changes != want.Changes || is.Records != want.Records || !errors.Is(is.Err, want.Err) ||
			is.Took < is.Synced || is.Began.IsZero() || len(is.Callers) != 1 || is.Callers[0].Value(name{}) != "asks" {
			t.Errorf("%d: observed %+v", i, is)
		}
	}
	if seen[0].Synced == 0 && seen[0].Took == 0 {
		t.Error("nothing was measured")
	}
}
