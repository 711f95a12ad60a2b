package store_test

import (
	"context"
	"errors"
	"testing"

	"attestd/internal/must"
	"attestd/internal/testenv"
	"attestd/store"
	"attestd/store/storetest"
)

// If another program holds the file's write lock too long, a request fails, but no record is lost.
func TestLockedFile(t *testing.T) {
	storetest.AboutFile(t)
	t.Parallel()
	testenv.Needs(t, testenv.Slow) // it waits for SQLite's busy timeout of 5 s
	s, path := watch(t)
	c := s.company
	db := other(t, path)
	conn, err := db.Conn(ctx)
	must.OK(t, err)
	_, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE")
	must.OK(t, err)
	if _, err := s.Credentials.CreateKey(ctx, by(c, now), nil, full, 1000); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a write through a lock: %v", err)
	}
	if keys := all(t, s.Credentials.Keys(ctx, by(c, now))); len(keys) != 1 {
		t.Errorf("readers see %d keys", len(keys))
	}
	_, err = conn.ExecContext(ctx, "ROLLBACK")
	must.OK(t, err)
	must.OK(t, conn.Close())
	if s.grow(t) {
		t.Error("a lock without a write counted as an external write")
	}
}

// A request whose caller has left before its turn is dropped without a transaction.
func TestCanceledWriteIsNotStarted(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	s, _ := fresh(t)
	c, _ := company(t, s, "acme")
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Credentials.CreateKey(gone, by(c, now), nil, full, 1000); !errors.Is(err, gone.Err()) {
		t.Error(err)
	}
	if keys := all(t, s.Credentials.Keys(ctx, by(c, now))); len(keys) != 1 {
		t.Errorf("%d keys", len(keys))
	}
}
