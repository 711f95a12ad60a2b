package store_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"attestd/chain"
	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/ledger"
	"attestd/store/names"
	"attestd/store/storetest"
)

// keyed returns a draft that says what is asked for, with an idempotency key.
func keyed(c *store.Company, key, request string) chain.Draft {
	d := saying(c, strconv.Quote(request))
	d.Keys = []chain.Key{{Name: names.Key(key), Request: names.Request(d.Canonical, "", "")}}
	return d
}

// recordOf reads the record of a key.
func recordOf(s *store.Store, by store.Caller, key, request string) (*chain.Record, error) {
	d := keyed(by.Company, key, request)
	return s.Retries.Recorded(ctx, by, &d.Keys[0], &d)
}

// once appends a single draft.
func once(t testing.TB, s *store.Store, d chain.Draft) (chain.Appended, error) {
	t.Helper()
	a, err := s.AppendAll(ctx, []chain.Draft{d})
	if err != nil {
		return chain.Appended{}, err
	}
	return a[0], nil
}

// An idempotency key identifies one record of one company, also after restarts, after a restore and
// after a rotation of the company's keys.
func TestIdempotencyKeySurvivesRestartBackupAndRotation(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	acme, _ := company(t, s, "acme")
	zoo, _ := company(t, s, "zoo")
	attest(t, s, acme, 3)
	first := got(once(t, s, keyed(acme, "k", "a")))(t)
	if first.Index != 3 || first.Replayed {
		t.Errorf("first: %+v", first)
	}
	if other := got(once(t, s, keyed(zoo, "k", "a")))(t); other.Index != 0 || other.Replayed {
		t.Errorf("of another company: %+v", other)
	}
	check := func(s *store.Store) {
		t.Helper()
		again := got(once(t, s, keyed(acme, "k", "a")))(t)
		if !again.Replayed || again.Index != 3 || again.Hash != first.Hash || again.Signature != first.Signature || string(again.Payload) != string(first.Payload) {
			t.Errorf("again: %+v", again)
		}
		if _, err := once(t, s, keyed(acme, "k", "b")); !errors.Is(err, chain.ErrKeyReused) {
			t.Errorf("another request: %v", err)
		}
		r := got(recordOf(s, by(acme, time.Now()), "k", "a"))(t)
		if r.Hash != first.Hash {
			t.Errorf("read: %+v", r)
		}
		if _, err := recordOf(s, by(acme, time.Now()), "k", "b"); !errors.Is(err, chain.ErrKeyReused) {
			t.Errorf("read with another request: %v", err)
		}
		if _, err := recordOf(s, by(acme, time.Now()), "unknown", "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an unknown one: %v", err)
		}
	}
	check(s)
	rotate(t, s, acme, time.Now(), false)
	check(s)
	must.OK(t, s.Close())
	check(open(t, path))
	if storetest.OnPostgres() {
		return // PostgreSQL has its own backups
	}
	out := target(t)
	must.OK(t, admin.Backup(ctx, path, out, schema(t), nil))
	restored := target(t)
	must.OK(t, restore(t, out, restored, admin.RestoreOptions{}))
	check(open(t, restored))
}

// After its retention period a key is free: a request with it creates a new record. Expired keys
// are deleted as new keys come.
func TestKeysExpire(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	for i := range 10 {
		got(once(t, s, keyed(c, fmt.Sprint(i), "a")))(t)
	}
	db := other(t, path)
	count := func() (n int) {
		must.OK(t, db.QueryRow("SELECT count(*) FROM idempotency_key").Scan(&n))
		return n
	}
	older := fmt.Sprintf("UPDATE idempotency_key SET expires_at = expires_at - %d", ledger.KeyLifetime.Milliseconds())
	got(db.Exec(older + " WHERE idx < 6"))(t)
	if _, err := recordOf(s, by(c, time.Now()), "5", "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an expired key: %v", err)
	}
	if a := got(once(t, s, keyed(c, "5", "b")))(t); a.Index != 10 || a.Replayed {
		t.Errorf("under an expired key: %+v", a)
	}
	if a := got(once(t, s, keyed(c, "9", "a")))(t); a.Index != 9 || !a.Replayed {
		t.Errorf("under one that has not expired: %+v", a)
	}
	if n := count(); n != 10 {
		t.Errorf("%d keys, want 10: one counts anew", n)
	}
	const more = 200
	for i := range more {
		got(s.AppendAll(ctx, []chain.Draft{keyed(c, fmt.Sprint("new ", i), ""), draft(c)}))(t)
	}
	if n := count(); n != 10-5+more {
		t.Errorf("%d keys are left, want %d: five have expired", n, 10-5+more)
	}
	got(db.Exec(older))(t)
	var drafts []chain.Draft
	for i := range 700 {
		drafts = append(drafts, keyed(c, fmt.Sprint("at once ", i), ""))
	}
	got(s.AppendAll(ctx, drafts))(t)
	got(s.AppendAll(ctx, drafts[:1]))(t)
	if n := count(); n > 700+200 {
		t.Errorf("%d keys are left", n)
	}
	for i, a := range got(s.AppendAll(ctx, drafts))(t) {
		if !a.Replayed || a.Index != 411+int64(i) {
			t.Fatalf("key %d of many: %+v", i, a)
		}
	}
	must.OK(t, s.VerifyAll(ctx, "", 1, nil, nil))
}

// If the record of an idempotency key was removed, a retry gets an error instead of an answer, and
// other appends go on.
func TestIdempotencyKeyOfMissingRecord(t *testing.T) {
	t.Parallel()
	s, path := fresh(t)
	c, _ := company(t, s, "acme")
	got(once(t, s, keyed(c, "k", "a")))(t)
	attest(t, s, c, 1)
	other(t, path, append(unguarded, "DELETE FROM record WHERE id & 1099511627775 = 0")...)
	if _, err := once(t, s, keyed(c, "k", "a")); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("answered: %v", err)
	}
	attest(t, s, c, 1)
}
