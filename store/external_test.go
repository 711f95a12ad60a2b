package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/internal/must"
	"attestd/store"
	"attestd/store/storetest"
)

// watched is a database whose log messages about external writes are counted.
type watched struct {
	*store.Store
	company *store.Company
	noticed atomic.Int64
}

func watch(t testing.TB) (w *watched, path string) {
	t.Helper()
	w, path = &watched{}, storetest.New(t)
	w.Store = openWith(t, path, store.RunOptions{Publish: func(_ []chain.Extension, external bool) {
		if external {
			w.noticed.Add(1)
		}
	}})
	w.company, _ = company(t, w.Store, "acme")
	return w, path
}

// grow appends a record and reports whether an external write was noticed since the last call.
func (w *watched) grow(t testing.TB) bool {
	t.Helper()
	attest(t, w.Store, w.company, 1)
	return w.noticed.Swap(0) > 0
}

func TestOwnWritesAreNotExternal(t *testing.T) {
	t.Parallel()
	s, path := watch(t)
	c := s.company
	if s.grow(t) {
		t.Error("the first batch after the start")
	}
	_, err := s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000)
	must.OK(t, err)
	if s.grow(t) {
		t.Error("after another write of ours")
	}
	long := draft(c)
	long.Payload = fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", 800_000))
	long.Canonical = long.Payload
	for range 30 { // 4000 pages start a checkpoint
		_, err := s.Append(ctx, long)
		must.OK(t, err)
	}
	if s.grow(t) {
		t.Fatal("after a checkpoint of ours")
	}
	must.OK(t, s.Records(ctx, c.Chain, 0, 100, func(*chain.Record) error { return nil }))
	if s.grow(t) {
		t.Error("after a read")
	}
	ro, err := store.OpenReadOnly(ctx, path)
	must.OK(t, err)
	length(t, ro, c)
	must.OK(t, ro.Close())
	if s.grow(t) {
		t.Error("after a read-only command beside us")
	}
	if err := s.Credentials.DeleteKey(ctx, by(c, now), "no such key"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	if s.grow(t) {
		t.Error("after a write that was rolled back")
	}
}

func TestExternalWriteIsReportedOnce(t *testing.T) {
	storetest.NotOnPostgres(t, "others may write there at any time: what they wrote is checked when it is built on")
	t.Parallel()
	s, path := watch(t)
	c := s.company
	s.grow(t)
	db := other(t, path, "CREATE TABLE strange (x)")
	if !s.grow(t) {
		t.Error("the write was not noticed")
	}
	if s.grow(t) {
		t.Error("noticed twice")
	}
	_, err := db.Exec("INSERT INTO strange VALUES (1)")
	must.OK(t, err)
	// This read sees the external write first and must not hide it from the writer.
	_, err = s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000)
	must.OK(t, err)
	if !s.grow(t) {
		t.Error("a write noticed by another transaction was lost")
	}
	if s.grow(t) {
		t.Error("noticed twice")
	}
}

// While the writer sees no external write, cached rows are valid for ten seconds. After the
// writer's last transaction, a deletion by a tool stays unnoticed for at most one second.
func TestCacheIsValidWithoutExternalWrites(t *testing.T) {
	storetest.NotOnPostgres(t, "no server there sees whether others write: what it remembers counts for a quarter of a second")
	t.Parallel()
	path := storetest.New(t)
	at := func(ms int64) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	var clock atomic.Int64 // the writer's clock
	s := openWith(t, path, store.RunOptions{Now: func() time.Time { return at(clock.Load()) }})
	c, _ := company(t, s, "acme")
	db := other(t, path)
	for _, test := range []struct {
		read, look    int64 // when the key is read, and when the last transaction ends
		counts, until int64 // from when until when the cached key must be accepted
	}{
		{0, 900, 1899, 1900},
		{10_000, 19_500, 19_999, 20_000},
		{30_000, 30_000, 30_999, 31_000},
	} {
		clock.Store(test.read)
		key := got(s.Credentials.CreateKey(ctx, by(c, at(test.read)), nil, full, 1000))(t)
		ask := func(ms int64) error {
			_, err := s.Credentials.Authenticate(ctx, keys.HashSecret(key.Key), at(ms))
			return err
		}
		must.OK(t, ask(test.read))
		clock.Store(test.look)
		must.OK(t, s.Ready(ctx))
		_, err := db.Exec("DELETE FROM api_key WHERE fingerprint = '" + keys.Fingerprint(keys.HashSecret(key.Key)) + "'")
		must.OK(t, err)
		if err := ask(test.counts); err != nil {
			t.Errorf("read at %d, looked at %d, asked at %d: %v", test.read, test.look, test.counts, err)
		}
		if err := ask(test.until); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("read at %d, looked at %d, asked at %d: %v", test.read, test.look, test.until, err)
		}
	}
}

// A key that a tool deleted from the file is refused from the next write on, and in any case within
// a second.
func TestExternalDeletionInvalidatesCache(t *testing.T) {
	t.Parallel()
	s, path := watch(t)
	c := s.company
	first := got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t)
	second := got(s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000))(t)
	for _, k := range []store.APIKey{first, second} {
		if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(k.Key), now); err != nil {
			t.Fatal(err)
		}
	}
	db := other(t, path, "DELETE FROM api_key WHERE fingerprint = '"+keys.Fingerprint(keys.HashSecret(first.Key))+"'")
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(first.Key), now.Add(time.Second)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a second: %v", err)
	}
	if storetest.OnPostgres() {
		return // on PostgreSQL no write of a server reveals external writes
	}
	_, err := db.Exec("DELETE FROM api_key WHERE fingerprint = '" + keys.Fingerprint(keys.HashSecret(second.Key)) + "'")
	must.OK(t, err)
	s.grow(t)
	if _, err := s.Credentials.Authenticate(ctx, keys.HashSecret(second.Key), now); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a write: %v", err)
	}
}
