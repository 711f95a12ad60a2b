package service

import (
	"os"
	"testing"
	"time"

	"attestd/chain/tlog"
	"attestd/store"
	"attestd/store/storetest"
)

// A caller who asked for a checkpoint before a key was declared compromised, and waited for its
// turn, is given one of the new key.
func TestCheckpointAskedForBeforeARotation(t *testing.T) {
	t.Parallel()
	db, company := newCompany(t)
	by := store.Caller{Company: company, At: time.Now()}
	p := NewCheckpoints(db)

	_, next, err := db.Companies.RotateKey(t.Context(), by, true)
	fatal(t, err)
	given, err := p.Newest(t.Context(), by, company.Actions)
	fatal(t, err)
	if _, _, err := tlog.OpenCheckpoint(given, company.Actions.VKey(next.Public)); err != nil {
		t.Errorf("%v: %s", err, given)
	}
}

// newCompany opens a store of its own, with a company in it.
func newCompany(t *testing.T) (*store.Store, *store.Company) {
	t.Helper()
	schema, err := os.ReadFile("../schema.sql")
	fatal(t, err)
	db, err := store.Open(t.Context(), storetest.New(t), string(schema), store.Options{})
	fatal(t, err)
	go db.Run(t.Context(), store.RunOptions{})
	t.Cleanup(func() { db.Close() })
	company, _, err := db.Companies.Create(t.Context(), "acme", nil, time.Now())
	fatal(t, err)
	return db, company
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
