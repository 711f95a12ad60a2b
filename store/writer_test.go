package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"attestd/crypto/cred"
)

// These tests stand inside the package, for they must decide which jobs share a transaction.

func openWriter(t *testing.T) *writer {
	t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), filepath.Join(t.TempDir(), "attestd.db"), string(schema), cred.Domain{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.writer
}

// together runs the jobs in one transaction, in their order, and returns their answers.
func together(w *writer, jobs ...func(*conn) error) []error {
	w.turn <- struct{}{} // nobody can lead until all are queued
	answers := make([]chan error, len(jobs))
	for i, fn := range jobs {
		answers[i] = make(chan error, 1)
		go func() {
			defer func() {
				if p := recover(); p != nil {
					answers[i] <- fmt.Errorf("leader panicked: %v", p)
				}
			}()
			answers[i] <- w.do(fn)
		}()
		for queued(w) <= i {
			runtime.Gosched()
		}
	}
	<-w.turn
	errs := make([]error, len(jobs))
	for i := range errs {
		errs[i] = <-answers[i]
	}
	return errs
}

func queued(w *writer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

func put(name string) func(*conn) error {
	return func(c *conn) error {
		_, err := c.exec("INSERT INTO setting (name, value) VALUES (?, '')", name)
		return err
	}
}

// stored lists what put has stored, from inside a transaction of its own.
func stored(t *testing.T, w *writer) (names string) {
	t.Helper()
	if err := w.do(func(c *conn) error {
		return c.one([]any{&names}, `SELECT coalesce(group_concat(name, ' ' ORDER BY name), '') FROM setting
			WHERE name NOT IN ('service_name', 'trust_domain')`)
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestAnErrorUndoesOneJobOnly(t *testing.T) {
	t.Parallel()
	w := openWriter(t)
	refused := errors.New("refused")
	errs := together(w,
		put("a"),
		func(c *conn) error { return errors.Join(put("lost")(c), refused) },
		put("b"),
		put("b"), // a constraint
		put("c"),
	)
	if errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil || !isDuplicate(errs[3]) || errs[4] != nil {
		t.Errorf("answers: %v", errs)
	}
	if s := stored(t, w); s != "a b c" {
		t.Errorf("stored: %s", s)
	}
}

// Whatever SQLite does to a transaction, nobody is told that his part of it stands.
func TestWhatEndsATransactionEndsItForAll(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		job  func(*conn) error
		want error
	}{
		"full": {func(c *conn) error {
			defer c.one([]any{new(int)}, "PRAGMA max_page_count = 1073741823")
			if err := c.one([]any{new(int)}, "PRAGMA max_page_count = 1"); err != nil { // of the pages that there are
				return err
			}
			_, err := c.exec("INSERT INTO setting (name, value) VALUES ('big', hex(zeroblob(1000000)))")
			return err
		}, ErrUnavailable},
		"full, and the job says nothing of it": {func(c *conn) error {
			defer c.one([]any{new(int)}, "PRAGMA max_page_count = 1073741823")
			c.one([]any{new(int)}, "PRAGMA max_page_count = 1")
			c.exec("INSERT INTO setting (name, value) VALUES ('big', hex(zeroblob(1000000)))")
			return nil
		}, ErrUnavailable},
		"rolled back": {func(c *conn) error {
			_, err := c.exec("ROLLBACK")
			return err
		}, nil},
		"no such table": {func(c *conn) error {
			_, err := c.exec("INSERT INTO nowhere VALUES (1)")
			return err
		}, nil},
		"panic": {func(*conn) error { panic("at the disco") }, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWriter(t)
			errs := together(w, put("a"), func(*conn) error { return refused }, test.job, put("b"))
			for i, err := range errs {
				if err == nil || errors.Is(err, refused) {
					t.Errorf("answer %d: %v", i, err)
				}
				if test.want != nil && i > 0 && !errors.Is(err, test.want) {
					t.Errorf("answer %d: %v", i, err)
				}
			}
			if err := w.do(put("after")); err != nil {
				t.Fatalf("the next write: %v", err)
			}
			if s := stored(t, w); s != "after" {
				t.Errorf("stored: %s", s)
			}
		})
	}
}

// A connection left inside a transaction is given up, not used.
func TestABrokenConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	w := openWriter(t)
	if _, err := w.conn.exec("BEGIN"); err != nil {
		t.Fatal(err)
	}
	others := w.others
	if err := w.do(put("a")); err == nil {
		t.Fatal("a transaction within a transaction")
	}
	if err := w.do(put("b")); err != nil {
		t.Fatal(err)
	}
	if s := stored(t, w); s != "b" {
		t.Errorf("stored: %s", s)
	}
	if w.others != others+1 {
		t.Errorf("what happened between two connections is not known, but counted as %d foreign writes", w.others-others)
	}
}
