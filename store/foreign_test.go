package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store"
)

// grow extends a chain by one record and says whether the store saw a stranger.
func grow(t testing.TB, s *store.Store, number int64) bool {
	t.Helper()
	h, err := s.Head(ctx, number)
	must(t, err)
	foreign, err := s.Extend(ctx, []chain.Extension{extension(number, h, 1)})
	must(t, err)
	return foreign
}

func TestWhatWeDoOurselvesIsNotForeign(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	if grow(t, s, c.Chain) {
		t.Error("the first batch after the start")
	}
	_, err := s.CreateKey(ctx, by(c, now), nil, 1000)
	must(t, err)
	if grow(t, s, c.Chain) {
		t.Error("after another write of ours")
	}
	for range 20 { // 1000 pages start a checkpoint
		e := extension(c.Chain, got(s.Head(ctx, c.Chain))(t), 100)
		for i := range e.Records {
			e.Records[i].Payload = []byte(strings.Repeat("x", 8000))
		}
		foreign, err := s.Extend(ctx, []chain.Extension{e})
		must(t, err)
		if foreign {
			t.Fatal("after a checkpoint of ours")
		}
	}
	must(t, s.Records(ctx, c.Chain, 0, 100, func(*chain.Record) error { return nil }))
	if grow(t, s, c.Chain) {
		t.Error("after a read")
	}
	ro, err := store.OpenReadOnly(ctx, path)
	must(t, err)
	length(t, ro, c)
	must(t, ro.Close())
	if grow(t, s, c.Chain) {
		t.Error("after a read-only command beside us")
	}
	if err := s.DeleteKey(ctx, by(c, now), "no such key"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if grow(t, s, c.Chain) {
		t.Error("after a write that was rolled back")
	}
}

func TestAStrangersWriteIsNoticedOnce(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	grow(t, s, c.Chain)
	db := other(t, path, "CREATE TABLE strange (x)")
	if !grow(t, s, c.Chain) {
		t.Error("the write was not noticed")
	}
	if grow(t, s, c.Chain) {
		t.Error("noticed twice")
	}
	_, err := db.Exec("INSERT INTO strange VALUES (1)")
	must(t, err)
	_, err = s.CreateKey(ctx, by(c, now), nil, 1000) // sees it first, and must not swallow it
	must(t, err)
	if !grow(t, s, c.Chain) {
		t.Error("a write noticed by another transaction was lost")
	}
	if grow(t, s, c.Chain) {
		t.Error("noticed twice")
	}
}

// A key that a tool deleted in the file is refused from the next write on, and within a second in any case.
func TestAStrangersDeletionReachesTheCache(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	first := got(s.CreateKey(ctx, by(c, now), nil, 1000))(t)
	second := got(s.CreateKey(ctx, by(c, now), nil, 1000))(t)
	for _, k := range []store.APIKey{first, second} {
		if _, err := s.Authenticate(ctx, keys.HashSecret(k.Key), now); err != nil {
			t.Fatal(err)
		}
	}
	db := other(t, path, "DELETE FROM api_key WHERE key = '"+first.Key+"'")
	if _, err := s.Authenticate(ctx, keys.HashSecret(first.Key), now.Add(time.Second)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a second: %v", err)
	}
	_, err := db.Exec("DELETE FROM api_key WHERE key = '" + second.Key + "'")
	must(t, err)
	grow(t, s, c.Chain)
	if _, err := s.Authenticate(ctx, keys.HashSecret(second.Key), now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a write: %v", err)
	}
}
