package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attestd/chain"
	"attestd/internal/testenv"
	"attestd/store/db"
	"attestd/store/ledger"
)

// These tests are inside the package because they must decide which jobs share a transaction.

// inBubble runs a test with a database in which every wait is visible to the bubble.
func inBubble(t *testing.T, test func(t *testing.T, s *Store)) {
	schema, err := os.ReadFile("../schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "attestd.db")
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(context.Background(), path, string(schema), Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		go s.Run(context.Background(), ledger.RunOptions{})
		test(t, s)
	})
}

// together runs the changes in one transaction in the given order and returns their answers.
func together(s *Store, changes ...func(*db.Conn) error) []error {
	running, gathered := make(chan struct{}), make(chan struct{})
	go s.Write(context.Background(), func(*db.Conn) error { close(running); <-gathered; return nil })
	<-running // the writer drains nothing else until all are queued
	errs := make([]error, len(changes))
	var answered sync.WaitGroup
	for i, fn := range changes {
		answered.Go(func() { errs[i] = s.Write(context.Background(), fn) })
		synctest.Wait()
	}
	close(gathered)
	answered.Wait()
	return errs
}

func put(name string) func(*db.Conn) error {
	return func(c *db.Conn) error {
		_, err := c.Exec("INSERT INTO setting (name, value) VALUES (?, '')", name)
		return err
	}
}

// stored lists the values that put has stored; it reads them in a transaction of its own.
func stored(t *testing.T, s *Store) (names string) {
	t.Helper()
	if err := s.Write(context.Background(), func(c *db.Conn) error {
		return c.One([]any{&names}, `SELECT coalesce(group_concat(name, ' ' ORDER BY name), '') FROM setting
			WHERE name NOT IN ('service_name', 'trust_domain', 'database_id')`)
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestErrorRollsBackOnlyItsChange(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		refused := errors.New("refused")
		errs := together(s,
			put("a"),
			func(c *db.Conn) error { return errors.Join(put("lost")(c), refused) },
			put("b"),
			put("b"), // violates a constraint
			put("c"),
		)
		if errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil || !db.IsDuplicate(errs[3]) || errs[4] != nil {
			t.Errorf("answers: %v", errs)
		}
		if names := stored(t, s); names != "a b c" {
			t.Errorf("stored: %s", names)
		}
	})
}

// Rows and records are written together or not at all, even if the records cannot be written, and
// together with other changes.
func TestChangeRequiresControlRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		c, _, err := s.Companies.Create(context.Background(), "acme", nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		payload := []byte(`{"actionType":"build","agentId":"bot","companyId":"acme","payload":1}`)
		change := func(name string, chains ...int64) (records []chain.Record, err error) {
			return s.Change(context.Background(), func(w *db.Conn) (drafts []chain.Draft, err error) {
				for _, number := range chains {
					drafts = append(drafts, chain.Draft{Chain: number, Payload: payload, Canonical: payload})
				}
				return drafts, put(name)(w)
			})
		}
		if records, err := change("a", c.Chain, c.Chain); err != nil || len(records) != 2 || records[1].Index != 1 {
			t.Errorf("a change with two records: %v, %v", records, err)
		}
		if records, err := change("lost", c.Chain, 99); !errors.Is(err, chain.ErrMissing) || records != nil {
			t.Errorf("a change with a record for nobody: %v, %v", records, err)
		}
		if records, err := change("a", c.Chain); !db.IsDuplicate(err) || records != nil {
			t.Errorf("a change that is refused: %v, %v", records, err)
		}
		if names := stored(t, s); names != "a" {
			t.Errorf("stored: %s", names)
		}
		if err := s.VerifyAll(context.Background(), "", 1, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// Whatever SQLite does to a transaction, no caller learns that a change was stored which was not.
func TestLostTransactionFailsAllItsWrites(t *testing.T) {
	testenv.Concurrent(t)
	t.Parallel()
	refused := errors.New("refused")
	full := func(c *db.Conn) error {
		defer c.One([]any{new(int)}, "PRAGMA max_page_count = 1073741823")
		// the number of existing pages
		if err := c.One([]any{new(int)}, "PRAGMA max_page_count = 1"); err != nil {
			return err
		}
		_, err := c.Exec("INSERT INTO setting (name, value) VALUES ('big', hex(zeroblob(1000000)))")
		return err
	}
	for name, test := range map[string]struct {
		change func(*db.Conn) error
		want   error
	}{
		"full": {full, db.ErrUnavailable},
		"full, and the change says nothing of it": {func(c *db.Conn) error { full(c); return nil }, db.ErrUnavailable},
		"rolled back": {func(c *db.Conn) error {
			_, err := c.Exec("ROLLBACK")
			return err
		}, nil},
		"no such table": {func(c *db.Conn) error {
			_, err := c.Exec("INSERT INTO nowhere VALUES (1)")
			return err
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *Store) {
				errs := together(s, put("a"), func(*db.Conn) error { return refused }, test.change, put("b"))
				for i, err := range errs {
					if err == nil || errors.Is(err, refused) || errors.Is(err, db.ErrUnknown) {
						t.Errorf("answer %d: %v", i, err)
					}
					if test.want != nil && !errors.Is(err, test.want) {
						t.Errorf("answer %d: %v", i, err)
					}
				}
				if err := s.Write(context.Background(), put("after")); err != nil {
					t.Fatalf("the next write: %v", err)
				}
				if names := stored(t, s); names != "after" {
					t.Errorf("stored: %s", names)
				}
			})
		})
	}
}

// A connection that was left inside a transaction is closed and not used again.
func TestBrokenConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *Store) {
		s.Companies.byID.Put(s.Companies.byID.Generation(), "acme", db.Dated[*Company]{})
		if _, err := s.WriterConn().Exec("BEGIN"); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(context.Background(), put("a")); err == nil {
			t.Fatal("a transaction within a transaction")
		}
		if err := s.Write(context.Background(), put("b")); err != nil {
			t.Fatal(err)
		}
		if names := stored(t, s); names != "b" {
			t.Errorf("stored: %s", names)
		}
		if _, cached := s.Companies.byID.Get("acme"); cached {
			t.Error("what happened between two connections is not known, and memory was kept")
		}
	})
}
