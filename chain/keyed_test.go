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
				t.Errorf("in the other chain: %v", got)
			}
		})
	}
}

// An entry that leads to the record of another request answers nothing, nor does one whose draft
// lacks a name that is taken for good, or has it with an end. The other drafts of the batch are
// written.
func TestForgedKeyEntriesAreRefused(t *testing.T) {
	t.Parallel()
	taken := func(i int) chain.Draft {
		d := keyedDraft(1, i, fmt.Sprint("retry ", i))
		d.Keys = append(d.Keys, chain.Key{Name: sha256Sum(fmt.Sprint("statement ", i)), Request: sha256Sum(fmt.Sprint(i)), Unique: true})
		return d
	}
	for what, forge := range map[string]func(*stored){
		"another record":           func(s *stored) { forgeEntry(s, "retry 1", func(e *chain.KeyEntry) { e.Index = 2 }) },
		"another statement's":      func(s *stored) { forgeEntry(s, "statement 1", func(e *chain.KeyEntry) { e.Index = 2 }) },
		"a name that ends":         func(s *stored) { forgeEntry(s, "statement 1", func(e *chain.KeyEntry) { e.Expired = true }) },
		"a name that was removed":  func(s *stored) { delete(s.keyed, sha256Sum("statement 1")) },
		"a record of another time": func(s *stored) { s.rows[1].Timestamp = "2030-01-01T00:00:00.000Z" },
		"a delegation removed":     func(s *stored) { s.rows[1].Delegation = nil },
		"another payload":          func(s *stored) { s.rows[1].Payload = s.rows[2].Payload },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := newDisk(1)
				l := chain.NewLog(d)
				stop := run(t, l)
				for i := range 3 {
					draft := taken(i)
					draft.Delegation = []byte(`{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"t"}`)
					if _, err := l.AppendAll(t.Context(), []chain.Draft{draft}); err != nil {
						t.Fatal(err)
					}
				}
				stop()
				d.tamper(1, forge)
				var forged, plain func() ([]chain.Appended, error)
				inOneBatch(t, d, func(l *chain.Log) {
					again := taken(1)
					again.Delegation = []byte(`{"act":null,"delegationChain":["s"],"subject":"s","tokenId":"t"}`)
					forged, plain = submit(l, again), submit(l, draft(1, 7))
				})
				if a, err := forged(); !errors.Is(err, chain.ErrForged) {
					t.Errorf("answered %+v, %v", a, err)
				}
				if a, err := plain(); err != nil || a[0].Replayed {
					t.Errorf("the other one: %+v, %v", a, err)
				}
			})
		})
	}
}

func forgeEntry(s *stored, name string, change func(*chain.KeyEntry)) {
	e := s.keyed[sha256Sum(name)]
	change(&e)
	s.keyed[sha256Sum(name)] = e
}

// The record of a request is distinguished from others by its payload and its delegation. A retry
// of a person's agent may have another token; one of a token that is refused by now has its ID
// alone.
func TestRecordOfARequest(t *testing.T) {
	t.Parallel()
	record := func(d chain.Draft) *chain.Record {
		r := chain.Record{Index: 4, Timestamp: "2026-03-04T05:06:07.008Z", Payload: d.Payload, Delegation: d.Delegation}
		reseal(&r, key)
		return &r
	}
	with := func(token string, message chain.Delegated) chain.Draft {
		d := draft(1, 1)
		if token != "" {
			d.Delegation = []byte(`{"act":null,"delegationChain":["s","a"],"subject":"s","tokenId":"` + token + `"}`)
		}
		d.Replays = message
		return d
	}
	unchecked := with("", chain.Delegated{TokenID: "t"})
	pruned := record(with("t", chain.Delegated{}))
	pruned.Payload = nil
	decided := with("t", chain.Delegated{TokenID: "t"}) // of a record with a decision, without one
	decided.Canonical, decided.MayBeDecided = []byte(`{"n":2}`), true
	for what, c := range map[string]struct {
		d    chain.Draft
		r    *chain.Record
		want bool
	}{
		"the same":                       {with("t", chain.Delegated{TokenID: "t"}), record(with("t", chain.Delegated{})), true},
		"without a delegation":           {with("", chain.Delegated{}), record(with("", chain.Delegated{})), true},
		"another payload":                {draft(1, 2), record(draft(1, 4)), false},
		"another token":                  {with("u", chain.Delegated{TokenID: "u"}), record(with("t", chain.Delegated{})), false},
		"another token of the person":    {with("u", chain.Delegated{TokenID: "u", Subject: "s"}), record(with("t", chain.Delegated{})), true},
		"another person":                 {with("t", chain.Delegated{TokenID: "t", Subject: "r"}), record(with("t", chain.Delegated{})), false},
		"a token that is refused":        {unchecked, record(with("t", chain.Delegated{})), true},
		"a token of no record":           {unchecked, record(with("", chain.Delegated{})), false},
		"a record that was delegated":    {with("", chain.Delegated{}), record(with("t", chain.Delegated{})), false},
		"a pruned one":                   {with("t", chain.Delegated{TokenID: "t"}), pruned, true},
		"a pruned one of another action": {draft(1, 2), pruned, false},
		"a pruned one that was decided":  {decided, pruned, true},
	} {
		if got := c.d.Matches(c.r); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
