// Package admin is what commands do to a database and no server calls: back it up and restore it,
// seal its keys under another master key, move it to the other engine, accept that it went back or
// that its tables were changed, show a key once more.
//
// All of it works on a database that is closed, or beside a server that has it open, as each
// function says. What it needs of package store beyond what servers use stands in store/offline.go
// and store/giveup.go.
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
	closed := s.Close() // which ends Run
	return errors.Join(err, <-ended, closed)
}
