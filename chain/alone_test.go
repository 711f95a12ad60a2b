package chain_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
)

// A write alone has its own transaction, keeps its place in the queue, and gets the time of its
// turn.
func TestWriteAloneHasItsOwnTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		var commits int
		var order []string // which transaction each change is in
		d.setFault(func(step string, _ int64) error {
			if step == "commit" {
				commits++
			}
			return nil
		})
		in := func(name string) func() ([]chain.Draft, error) {
			return func() ([]chain.Draft, error) {
				order = append(order, name+string(rune('0'+commits)))
				return rows(d, name, 1)()
			}
		}
		long := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		alone := make(chan []chain.Record, 1)
		inOneBatch(t, d, func(l *chain.Log) {
			writeLater(l, in("a"))
			writeLater(l, in("b"))
			go func() {
				records, _ := l.WriteAlone(context.Background(), func(time.Time) time.Time { return long }, in("c"))
				alone <- records
			}()
			synctest.Wait()
			writeLater(l, in("d"))
			writeLater(l, in("e"))
		})
		if want := []string{"a1", "b1", "c2", "d3", "e3"}; !slices.Equal(order, want) {
			t.Errorf("the transactions are %q, want %q", order, want)
		}
		if records := <-alone; len(records) != 1 || records[0].Index != 2 {
			t.Fatalf("%+v", records)
		}
		tip, _, err := d.Tip(context.Background(), 1)
		if err != nil || tip.Length != 5 {
			t.Errorf("%+v, %v", tip, err)
		}
	})
}
