package chain_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"sync"
	"testing"
	"time"

	"attestd/chain"
)

func keyNumber(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{100 + n}, ed25519.SeedSize))
}

// rekey changes the key of a chain through the log, as a row function does.
func rekey(t testing.TB, l *chain.Log, d *disk, c int64, k ed25519.PrivateKey) {
	t.Helper()
	_, err := l.Write(t.Context(), func() ([]chain.Draft, error) {
		d.rekey(c, k)
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestKeySetAt(t *testing.T) {
	t.Parallel()
	a, b, c := keyNumber(1).Public().(ed25519.PublicKey), keyNumber(2).Public().(ed25519.PublicKey), keyNumber(3).Public().(ed25519.PublicKey)
	set := chain.KeySet{{Key: a}, {From: 5, Key: b}, {From: 5, Key: c}} // b has signed nothing
	for index, want := range map[int64]ed25519.PublicKey{0: a, 4: a, 5: c, 6: c, 1 << 39: c, -1: nil} {
		if got := set.At(index).Key; !got.Equal(want) && (got != nil || want != nil) {
			t.Errorf("%d: %x, want %x", index, got, want)
		}
	}
	if got := (chain.KeySet{{From: 3, Key: a}}).At(2); got.Key != nil {
		t.Errorf("before the first: %+v", got)
	}
}

// Under concurrent appends and key changes, each record verifies with exactly the key of its index.
func TestKeysChangeUnderLoad(t *testing.T) {
	t.Parallel()
	const writers, each, changes = 32, 40, 20
	d := newDisk(1, 2)
	l := chain.NewLog(d)
	stop := run(t, l)
	var all sync.WaitGroup
	for g := range writers {
		all.Go(func() { appendAll(t, l, int64(1+g%2), 0, each) })
	}
	for n := range byte(changes) {
		rekey(t, l, d, 1, keyNumber(n))
	}
	all.Wait()
	stop()
	set := d.chains[1].keys.set
	if len(set) != changes+1 {
		t.Fatalf("%d keys", len(set))
	}
	for _, c := range []int64{1, 2} {
		if v := verify(t, d, c); !v.Valid || v.Length != writers/2*each {
			t.Errorf("chain %d: %+v", c, v)
		}
	}
	for _, r := range d.chains[1].rows {
		if !ed25519.Verify(set.At(r.Index).Key, r.Hash[:], r.Signature[:]) {
			t.Fatalf("record %d", r.Index)
		}
	}
}

// An abandoned key change leaves the old key. A committed one signs all records of its batch with
// the new key.
func TestKeyChangeIsAtomicWithItsTransaction(t *testing.T) {
	t.Parallel()
	d := newDisk(1)
	l := chain.NewLog(d)
	stop := run(t, l)
	defer stop()
	appendAll(t, l, 1, 0, 3)
	refused := errors.New("refused")
	if _, err := l.Write(t.Context(), func() ([]chain.Draft, error) {
		d.rekey(1, otherKey)
		return nil, refused
	}); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	appendAll(t, l, 1, 3, 6)
	lost := true
	d.setFault(func(step string, _ int64) error {
		if step == "commit" && lost {
			lost = false
			return errDisk
		}
		return nil
	})
	change := func() ([]chain.Draft, error) {
		d.rekey(1, otherKey)
		return []chain.Draft{draft(1, 6)}, nil
	}
	if _, err := l.Write(t.Context(), change); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	appendAll(t, l, 1, 6, 7)
	if set := d.chains[1].keys.set; len(set) != 1 {
		t.Fatalf("%d keys after two changes that were given up", len(set))
	}
	records, err := l.Write(t.Context(), change)
	if err != nil || len(records) != 1 || records[0].Index != 7 {
		t.Fatal(records, err)
	}
	if set := d.chains[1].keys.set; len(set) != 2 || set[1].From != 7 {
		t.Fatalf("%+v", set)
	}
	appendAll(t, l, 1, 8, 12)
	if v := verify(t, d, 1); !v.Valid || v.Length != 12 {
		t.Errorf("%+v", v)
	}
}

// grownKeys is a chain of 12 records under three keys, the second from 4 and the third from 9 on.
func grownKeys(t *testing.T) *disk {
	d := newDisk(1)
	for i, from := range []int{0, 4, 9} {
		l := chain.NewLog(d)
		stop := run(t, l)
		if i > 0 {
			rekey(t, l, d, 1, keyNumber(byte(i)))
		}
		appendAll(t, l, 1, from, []int{4, 9, 12}[i])
		stop()
	}
	return d
}

// A changed key range or key is detected at its first record, also by a verifier with a cached
// prefix.
func TestVerifyFindsChangedKeys(t *testing.T) {
	t.Parallel()
	other := otherKey.Public().(ed25519.PublicKey)
	for name, c := range map[string]struct {
		change func(set chain.KeySet) chain.KeySet
		at     int64
	}{
		"later range":     {func(s chain.KeySet) chain.KeySet { s[1].From = 5; return s }, 4},
		"earlier range":   {func(s chain.KeySet) chain.KeySet { s[1].From = 3; return s }, 3},
		"other key":       {func(s chain.KeySet) chain.KeySet { s[1].Key = other; return s }, 4},
		"half a key":      {func(s chain.KeySet) chain.KeySet { s[2].Key = s[2].Key[:16]; return s }, 9},
		"last key gone":   {func(s chain.KeySet) chain.KeySet { return s[:2] }, 9},
		"first key gone":  {func(s chain.KeySet) chain.KeySet { return s[1:] }, 0},
		"middle key gone": {func(s chain.KeySet) chain.KeySet { return append(s[:1], s[2]) }, 4},
		"no keys":         {func(chain.KeySet) chain.KeySet { return nil }, 0},
		"unproven":        {func(s chain.KeySet) chain.KeySet { s[1].Flaw = "flaw"; return s }, 4},
		"unproven and unused": {func(s chain.KeySet) chain.KeySet {
			return append(s, chain.KeyRange{From: 12, Key: other, Flaw: "flaw"})
		}, 12},
		"a key among the past": {func(s chain.KeySet) chain.KeySet {
			return chain.KeySet{s[0], {From: 4, Key: other}, {From: 6, Key: s[1].Key}, s[2]}
		}, 4},
	} {
		d := grownKeys(t)
		warm := chain.NewVerifier(d, 2)
		if v := mustVerify(t, warm, 1); !v.Valid || v.Length != 12 {
			t.Fatalf("%+v", v)
		}
		d.tamper(1, func(s *stored) { s.keys.set = c.change(append(chain.KeySet(nil), s.keys.set...)) })
		for which, v := range map[string]chain.Verdict{"warm": mustVerify(t, warm, 1), "cold": verify(t, d, 1)} {
			if v.Valid || v.FailedAt != c.at {
				t.Errorf("%s, %s: %+v, want failure at %d", name, which, v, c.at)
			}
		}
	}
}

// A new key does not invalidate the cached verification of records under former keys.
func TestVerifyRemembersAcrossKeys(t *testing.T) {
	t.Parallel()
	d := grownKeys(t)
	warm := chain.NewVerifier(d, 1)
	mustVerify(t, warm, 1)
	l := chain.NewLog(d)
	stop := run(t, l)
	rekey(t, l, d, 1, keyNumber(7))
	appendAll(t, l, 1, 12, 15)
	stop()
	d.steps["records"] = 0
	// the cached prefix, and the new records
	if v := mustVerify(t, warm, 1); !v.Valid || v.Length != 15 || d.steps["records"] != 2 {
		t.Errorf("%+v after %d reads", v, d.steps["records"])
	}
}

// The monitor follows a key change, both with a running tree and with a verification from disk.
func TestMonitorAcrossKeys(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDisk(1)
		w := watch(t, d)
		appendAll(t, w.Log, 1, 0, 3)
		rekey(t, w.Log, d, 1, keyNumber(1))
		appendAll(t, w.Log, 1, 3, 5)
		w.want(t, w.events(), 1, 0, 5, valid)
		d.tamper(1, func(*stored) {}) // an external write, so that it is verified from disk
		rekey(t, w.Log, d, 1, keyNumber(2))
		appendAll(t, w.Log, 1, 5, 7)
		w.want(t, w.events(), 1, 5, 7, valid)
		d.tamper(1, func(s *stored) { s.keys.set = s.keys.set[:2] })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.Append(ctx, draft(1, 7)); err != nil {
			t.Fatal(err)
		}
		w.want(t, w.events(), 1, 7, 8, 5)
	})
}
