package store

import (
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/atrest"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// Sentinel errors. All are returned wrapped; test with errors.Is.
var (
	ErrNotFound     = errors.New("not found")
	ErrExists       = errors.New("exists already")
	ErrLastKey      = errors.New("the last API key of a company that is an admin's and does not expire cannot be deleted")
	ErrRevoked      = errors.New("revoked already")
	ErrBadEnrolment = errors.New("the enrolment is another agent's, was spent or has ended")
	ErrNoFederation = errors.New("the federation is gone")
	ErrNotAsIssued  = errors.New("the passport is not the one that was issued under this ID")
	ErrDisabled     = errors.New("the agent is disabled")
	// an operator has suspended the company
	ErrSuspended = chain.ErrClosedChain
	// a *chain.QuotaError or *RegistrationQuotaError
	ErrQuota     = chain.ErrQuota
	ErrTooMany   = errors.New("the company has as many as it may")
	ErrUsed      = errors.New("the proof was used before")
	ErrBadClient = errors.New("unknown client or wrong secret")
	ErrBound     = errors.New("the access token is bound to a key, of which there is no proof")
	// disk full, I/O error, busy for too long: nothing was written
	ErrUnavailable = sqlite.ErrUnavailable
	ErrUnknown     = chain.ErrUnknown // a write that may or may not be on disk

	// Writes have stopped until a restart.
	ErrFileChanged = sqlite.ErrFileChanged
	ErrDamaged     = errors.New("a part of the database cannot be read as one")
	ErrClock       = errors.New("the clock is ten years or more ahead of the database")
	ErrRolledBack  = errors.New("the database is older than what was published from it")

	// ErrTablesChanged means that a row of a company differs from its control log; see
	// TablesChangedError.
	ErrTablesChanged = errors.New("the tables differ from the control log")

	ErrInUse   = sqlite.ErrInUse                          // another process serves it
	ErrForeign = errors.New("not an attestd database")    // the file is left unchanged
	ErrNewer   = errors.New("written by a newer attestd") // the file is left unchanged
	ErrCorrupt = atrest.ErrCorrupt                        // the file is left unchanged
	// the operator must first repair or accept what the error describes
	ErrRefused = sqlite.ErrRefused

	// missing, wrong, or given for a file whose keys are in plaintext
	ErrMasterKey = atrest.ErrMasterKey
)

// isConstraint reports whether one statement violated a constraint. Any other error of SQLite may
// have ended the whole transaction.
func isConstraint(err error) bool {
	class := sqlite.ClassOf(err)
	return class == sqlite.Constraint || class == sqlite.Duplicate
}

// isDuplicate reports whether a row exists already, on either engine.
func isDuplicate(err error) bool {
	return sqlite.ClassOf(err) == sqlite.Duplicate || postgres.ClassOf(err) == postgres.Duplicate
}

// sentinel wraps an error of SQLite's driver in its sentinel.
func sentinel(err error) error {
	switch sqlite.ClassOf(err) {
	case sqlite.NoRows:
		return ErrNotFound
	case sqlite.Busy, sqlite.Full, sqlite.Unavailable:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case sqlite.Corrupt:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
