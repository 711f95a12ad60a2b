package chain_test

import (
	"context"
	"errors"
	"testing"

	"attestd/chain"
)

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
