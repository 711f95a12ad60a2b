package db

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
	ErrNotFound = errors.New("not found")
	// disk full, I/O error, busy for too long: nothing was written
	ErrUnavailable = sqlite.ErrUnavailable
	ErrUnknown     = chain.ErrUnknown // a write that may or may not be on disk

	// Writes have stopped until a restart.
	ErrFileChanged = sqlite.ErrFileChanged
	ErrDamaged     = errors.New("a part of the database cannot be read as one")
	ErrClock       = errors.New("the clock is ten years or more ahead of the database")
	ErrRolledBack  = errors.New("the database is older than what was published from it")

	ErrInUse   = sqlite.ErrInUse                          // another process serves it
	ErrForeign = errors.New("not an attestd database")    // the file is left unchanged
	ErrNewer   = errors.New("written by a newer attestd") // the file is left unchanged
	ErrCorrupt = atrest.ErrCorrupt                        // the file is left unchanged
	// the operator must first repair or accept what the error describes
	ErrRefused = sqlite.ErrRefused

	// missing, wrong, or given for a file whose keys are in plaintext
	ErrMasterKey = atrest.ErrMasterKey

	// the database was opened for reading only
	ErrReadOnly = fmt.Errorf("%w: the database is open for reading only", ErrRefused)
)

// IsConstraint reports whether one statement violated a constraint. Any other error of SQLite may
// have ended the whole transaction.
func IsConstraint(err error) bool {
	class := sqlite.ClassOf(err)
	return class == sqlite.Constraint || class == sqlite.Duplicate
}

// IsDuplicate reports whether a row exists already, on either engine.
func IsDuplicate(err error) bool {
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

// IsDamage reports whether SQLite calls the database corrupt. It does so too when the disk cannot
// be read.
func IsDamage(err error) bool { return sqlite.ClassOf(err) == sqlite.Corrupt }
