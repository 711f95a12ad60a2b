package store

import (
	"cmp"
	"context"
	"slices"

	"attestd/store/db"
	"attestd/store/headfile"
)

// The declarations below are for package admin. No server calls them: a *db.Conn reads and writes
// any row, past the checks in the methods of a Store.

// On returns a Store for reading on one connection only, which sees the writes of its own
// transaction. name is the name of the database.
func On(name string, c *db.Conn) *Store { return newStore(db.On(name, c)) }

// Heads returns the state of all logs, in the order of their chains.
func (s Rollback) Heads(ctx context.Context) ([]headfile.Head, error) {
	logs, err := s.loggedHeads(ctx)
	if err != nil {
		return nil, err
	}
	heads := make([]headfile.Head, 0, len(logs))
	for _, l := range logs {
		heads = append(heads, l.Head)
	}
	slices.SortFunc(heads, func(a, b headfile.Head) int { return cmp.Compare(a.Chain, b.Chain) })
	return heads, nil
}

// CheckHeads compares a database with known heads. It returns a *RolledBackError if the database is
// behind one of them, or has another history.
func (s Rollback) CheckHeads(ctx context.Context, known []headfile.Head) error {
	behind, err := s.compare(ctx, known)
	if err == nil && len(behind) > 0 {
		err = &RolledBackError{behind}
	}
	return err
}
