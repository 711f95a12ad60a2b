package chain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"attestd/chain"
)

// keyedDraft returns a draft with a key. The key's request is the hash of the draft.
func keyedDraft(c int64, i int, name string) chain.Draft {
	d := draft(c, i)
	d.Keys = []chain.Key{{Name: sha256Sum(name), Request: sha256Sum(string(d.Canonical))}}
	return d
}

// submit starts an append and returns a function that waits for its result.
func submit(l *chain.Log, drafts ...chain.Draft) (answer func() ([]chain.Appended, error)) {
	var all []chain.Appended
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		all, err = l.AppendAll(context.Background(), drafts)
	}()
	synctest.Wait()
	return func() ([]chain.Appended, error) { <-done; return all, err }
}

// Of 64 equal concurrent appends, one becomes a record, in one or many batches. The others return
// it.
func TestConcurrentEqualAppendsAreOneRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		var answers []func() ([]chain.Appended, error)
		inOneBatch(t, d, func(l *chain.Log) {
			for range 64 {
				answers = append(answers, submit(l, keyedDraft(1, 7, "once")))
			}
		})
		replayed := 0
		for _, answer := range answers {
			a, err := answer()
			if err != nil || a[0].Index != 0 || a[0].Hash != d.chains[1].rows[0].Hash {
				t.Fatalf("answered %+v, %v", a, err)
			}
			if a[0].Replayed {
				replayed++
			}
		}
		if len(d.chains[1].rows) != 1 || replayed != 63 {
			t.Errorf("%d records, %d replayed", len(d.chains[1].rows), replayed)
		}
		if v := verify(t, d, 1); !v.Valid || v.Length != 1 {
			t.Errorf("verdict %+v", v)
		}
	})
}

// A retry after a restart returns the existing record and publishes nothing.
func TestIdempotentRetryAfterRestart(t *testing.T) {
	t.Parallel()
	d := newDisk(1, 2)
	var first chain.Hash
	published := 0
	for round := range 3 {
		l := chain.NewLog(d)
		stop := runWith(t, l, func(batch []chain.Extension, _ bool) { published += len(batch) })
		a, err := l.AppendAll(t.Context(), []chain.Draft{keyedDraft(1, 0, "k")})
		stop()
		if err != nil || a[0].Index != 0 || a[0].Replayed != (round > 0) || round > 0 && a[0].Hash != first {
			t.Fatalf("round %d: %+v, %v", round, a, err)
		}
		first = a[0].Hash
	}
	if published != 1 {
		t.Errorf("%d extensions were published", published)
	}
	grow(t, d, 1, 1, 3)
}

// An append that is refused for its idempotency key fails alone. Its index is not used.
func TestReusedIdempotencyKeyFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(1)
		l := chain.NewLog(d)
		stop := run(t, l)
		if _, err := l.AppendAll(t.Context(), []chain.Draft{keyedDraft(1, 0, "taken")}); err != nil {
			t.Fatal(err)
		}
		stop()
		var refused, same, plain, mixed func() ([]chain.Appended, error)
		inOneBatch(t, d, func(l *chain.Log) {
			refused = submit(l, keyedDraft(1, 1, "free"), draft(1, 2), keyedDraft(1, 3, "taken"))
			same = submit(l, keyedDraft(1, 9, "free"))
			plain = submit(l, draft(1, 4))
			mixed = submit(l, draft(1, 5), keyedDraft(1, 0, "taken"), keyedDraft(1, 9, "free"), keyedDraft(1, 6, "new"), keyedDraft(1, 6, "new"))
		})
		_, err := refused()
		if at := (*chain.DraftError)(nil); !errors.As(err, &at) || at.Draft != 2 || !errors.Is(err, chain.ErrKeyReused) {
			t.Errorf("another request: %v", err)
		}
		got := ""
		for _, answer := range []func() ([]chain.Appended, error){same, plain, mixed} {
			all, err := answer()
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				got += fmt.Sprint(a.Index, a.Replayed, " ")
			}
		}
		if want := "1 false 2 false 3 false 0 true 1 true 4 false 4 true "; got != want {
			t.Errorf("answered %s, want %s", got, want)
		}
		if v := verify(t, d, 1); !v.Valid || v.Length != 5 {
			t.Errorf("verdict %+v", v)
		}
	})
}

// If an idempotency key cannot be read, only its append fails, unless the transaction is lost. Then
// the whole batch fails.
func TestIdempotencyKeyReadErrors(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		step string
		err  error
	}{{"kept", errDisk}, {"kept", errLost}, {"record", errDisk}, {"record", errLost}} {
		synctest.Test(t, func(t *testing.T) {
			d, err := newDisk(1), fault.err
			l := chain.NewLog(d)
			stop := run(t, l)
			if _, err := l.AppendAll(t.Context(), []chain.Draft{keyedDraft(1, 1, "k")}); err != nil {
				t.Fatal(err)
			}
			stop()
			d.setFault(fail(1, fault.step, err))
			var keyed, plain func() ([]chain.Appended, error)
			inOneBatch(t, d, func(l *chain.Log) {
				plain = submit(l, draft(1, 0))
				keyed = submit(l, keyedDraft(1, 1, "k"))
			})
			if _, got := keyed(); !errors.Is(got, err) {
				t.Errorf("keyed: %v", got)
			}
			if _, got := plain(); errors.Is(got, err) != (err == errLost) {
				t.Errorf("beside it: %v", got)
			}
		})
	}
}
