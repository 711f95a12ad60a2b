// Package admin implements commands that operate on a database and that no server calls: backup and
// restore, sealing keys under another master key, moving to the other engine, accepting a rollback
// or changed tables, and recovering a key.
//
// A function works on a closed database or while a server runs, as its comment says. The parts of
// package store that only this package uses are in store/offline.go and store/giveup.go.
package admin

import (
	"context"
	"errors"

	"attestd/store"
)

// Run runs s while fn works, closes it, and returns the errors of all three.
func Run(ctx context.Context, s *store.Store, o store.RunOptions, fn func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, o) }()
	err := fn()
	closed := s.Close() // this ends Run
	return errors.Join(err, <-ended, closed)
}
