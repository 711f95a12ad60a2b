package chain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

var errRefused = errors.New("refused")

// writeLater starts a write and returns when it waits.
func writeLater(l *chain.Log, rows func() ([]chain.Draft, error)) (answer func() ([]chain.Record, error)) {
	var records []chain.Record
	var err error
	done := make(chan struct{})
	go func() {
		records, err = l.Write(context.Background(), rows)
		close(done)
	}()
	synctest.Wait()
	return func() ([]chain.Record, error) { <-done; return records, err }
}

// rows writes one row, and asks for records in the chains named.
func rows(d *disk, name string, chains ...int64) func() ([]chain.Draft, error) {
	return func() (drafts []chain.Draft, err error) {
		d.put(name)
		for i, c := range chains {
			drafts = append(drafts, draft(c, i))
		}
		return drafts, nil
	}
}

// inOneBatch gathers the writes that gather starts behind a commit that waits for their arrival.
func inOneBatch(t *testing.T, d *disk, gather func(l *chain.Log)) {
	t.Helper()
	syncing, first := make(chan struct{}), true
	fault := d.fault
	d.setFault(func(step string, c int64) error {
		if step == "commit" && first {
			first = false
			<-syncing
		}
		if fault != nil {
			return fault(step, c)
		}
		return nil
	})
	l := chain.NewLog(d)
	stop := run(t, l)
	writeLater(l, func() ([]chain.Draft, error) { return nil, nil })
	gather(l)
	close(syncing)
	stop()
}

// No change without its record and no record without its change: of a batch in which each kind of
// thing goes wrong, all that is valid is there in full, and nothing of the rest.
func TestRowsAndRecordsAreOneTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1, 2, 3)
		d.fault = func(step string, c int64) error {
			if step == "extend" && c == 3 {
				return errDisk
			}
			return nil
		}
		type write struct {
			name    string
			rows    func() ([]chain.Draft, error)
			records []string // chain+index of each
			err     error
		}
		writes := []write{
			{"both", rows(d, "both", 1, 2, 1), []string{"0", "0", "1"}, nil},
			{"rows alone", rows(d, "alone"), nil, nil},
			{"refused", func() ([]chain.Draft, error) { d.put("lost"); return []chain.Draft{draft(1, 0)}, errRefused }, nil, errRefused},
			{"bad chain", rows(d, "bad", 2, 3), nil, errDisk},
			{"no such chain", rows(d, "none", 9), nil, errNotFound},
			{"after all that", rows(d, "after", 2), []string{"1"}, nil},
		}
		var answers []func() ([]chain.Record, error)
		inOneBatch(t, d, func(l *chain.Log) {
			for _, w := range writes {
				answers = append(answers, writeLater(l, w.rows))
			}
		})
		for i, w := range writes {
			records, err := answers[i]()
			var indices []string
			for _, r := range records {
				indices = append(indices, fmt.Sprint(r.Index))
			}
			if !errors.Is(err, w.err) || !slices.Equal(indices, w.records) {
				t.Errorf("%s: records %v, %v", w.name, indices, err)
			}
		}
		if want := []string{"both", "alone", "after"}; !slices.Equal(d.table, want) {
			t.Errorf("rows %v, want %v", d.table, want)
		}
		if len(d.chains[1].rows) != 2 || len(d.chains[2].rows) != 2 || len(d.chains[3].rows) != 0 {
			t.Errorf("%d, %d and %d records", len(d.chains[1].rows), len(d.chains[2].rows), len(d.chains[3].rows))
		}
		for c := range int64(3) {
			if v := verify(t, d, c+1); !v.Valid {
				t.Errorf("chain %d: %+v", c+1, v)
			}
		}
	})
}

// What ends a transaction ends it for all, also for those whom it had already refused, and says
// whether anything was written.
func TestLostTransactionFailsTheBatch(t *testing.T) {
	t.Parallel()
	unknown := fmt.Errorf("%w: %w", chain.ErrUnknown, errDisk)
	for name, c := range map[string]struct {
		step string
		err  error
	}{
		"a statement ends it":               {"extend", errLost},
		"the commit fails":                  {"commit", errDisk},
		"the commit may be on disk, or not": {"committed", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1)
				commits := 0
				d.fault = func(step string, _ int64) error {
					if step == "commit" {
						commits++
					}
					if step == c.step && (commits > 1 || step == "extend") {
						return c.err
					}
					return nil
				}
				var answers []func() ([]chain.Record, error)
				inOneBatch(t, d, func(l *chain.Log) {
					answers = append(answers,
						writeLater(l, rows(d, "a")),
						writeLater(l, func() ([]chain.Draft, error) { return nil, errRefused }),
						writeLater(l, rows(d, "b", 1)))
				})
				for i, answer := range answers {
					records, err := answer()
					if !errors.Is(err, c.err) || errors.Is(err, errRefused) || records != nil {
						t.Errorf("answer %d: %v, %v", i, records, err)
					}
				}
			})
		})
	}
}

// A panic in one change costs that change, not the log and not the other waiters.
func TestPanicFailsOnlyItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		var answers []func() ([]chain.Record, error)
		inOneBatch(t, d, func(l *chain.Log) {
			answers = append(answers,
				writeLater(l, rows(d, "before", 1)),
				writeLater(l, func() ([]chain.Draft, error) { d.put("lost"); panic("at the disco") }),
				writeLater(l, rows(d, "after", 1)))
		})
		for i, answer := range answers {
			_, err := answer()
			if panicked := err != nil && strings.Contains(err.Error(), "at the disco") && strings.Contains(err.Error(), "write_test.go"); panicked != (i == 1) {
				t.Errorf("answer %d: %v", i, err)
			}
		}
		if want := []string{"before", "after"}; !slices.Equal(d.table, want) || len(d.chains[1].rows) != 2 {
			t.Errorf("rows %v, %d records", d.table, len(d.chains[1].rows))
		}
	})
}

// A change that is alone in its batch is undone by the end of its transaction: it needs no
// savepoint, whose journal would grow with what it writes. Records never need one.
func TestSingleChangeNeedsNoSavepoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		l := chain.NewLog(d)
		stop := run(t, l)
		if _, err := l.Write(t.Context(), rows(d, "a", 1)); err != nil {
			t.Error(err)
		}
		if _, err := l.Write(t.Context(), func() ([]chain.Draft, error) { d.put("lost"); return nil, errRefused }); err != errRefused {
			t.Error(err)
		}
		stop()
		inOneBatch(t, d, func(l *chain.Log) {
			for i := range 5 {
				appendLater(l, draft(1, i))
			}
		})
		if n := d.count("savepoint"); n != 0 || !slices.Equal(d.table, []string{"a"}) || len(d.chains[1].rows) != 6 {
			t.Errorf("%d savepoints, rows %v, %d records", n, d.table, len(d.chains[1].rows))
		}
	})
}

// A write that a batch has taken is waited for, for its rows use what is its caller's; one that
// waits is withdrawn.
func TestWriteOutlivesItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 2)
		inOneBatch(t, d, func(l *chain.Log) {
			go func() {
				_, err := l.Write(ctx, rows(d, "withdrawn"))
				errs <- err
			}()
			synctest.Wait()
			cancel()
			if err := <-errs; err != context.Canceled {
				t.Errorf("a write that waited: %v", err)
			}
		})
		running, finish := make(chan struct{}), make(chan struct{})
		l := chain.NewLog(d)
		stop := run(t, l)
		ctx, cancel = context.WithCancel(t.Context())
		go func() {
			_, err := l.Write(ctx, func() ([]chain.Draft, error) { close(running); <-finish; d.put("done"); return nil, nil })
			errs <- err
		}()
		<-running
		cancel()
		synctest.Wait()
		if len(errs) > 0 {
			t.Error("Write returned while its rows were being written")
		}
		close(finish)
		if err := <-errs; err != nil {
			t.Errorf("a write that was on its way: %v", err)
		}
		stop()
		if !slices.Equal(d.table, []string{"done"}) {
			t.Errorf("rows %v", d.table)
		}
	})
}
