package store

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"attestd/chain"
	"attestd/store/postgres"
)

// Sentinels. All are wrapped with context; test with errors.Is.
var (
	ErrNotFound    = errors.New("not found")
	ErrExists      = errors.New("exists already")
	ErrLastKey     = errors.New("the last API key of a company that is an admin's and does not expire cannot be deleted")
	ErrRevoked     = errors.New("revoked already")
	ErrDisabled    = errors.New("the agent is disabled")
	ErrTooMany     = errors.New("the company has as many as it may")
	ErrBadClient   = errors.New("unknown client or wrong secret")
	ErrUnavailable = errors.New("storage unavailable") // disk full, I/O error, busy for too long: nothing was written
	ErrUnknown     = chain.ErrUnknown                  // a write of which nobody can say whether it is on disk

	// Nothing is written until a restart.
	ErrFileChanged = errors.New("the database file is no longer the one that was opened")
	ErrClock       = errors.New("the clock is ten years or more ahead of the database")
	ErrRolledBack  = errors.New("the database is older than what was published from it")

	ErrInUse   = errors.New("database in use")            // another process serves it
	ErrForeign = errors.New("not an attestd database")    // left byte for byte as it was
	ErrNewer   = errors.New("written by a newer attestd") // likewise
	ErrCorrupt = errors.New("database is corrupt")        // likewise
	ErrRefused = errors.New("refused")                    // what it says is to be mended or accepted first

	ErrMasterKey = errors.New("master key") // missing, not the one of the file, or given for a file whose keys are in clear
)

// resultCode is the extended result code of SQLite behind err (https://www.sqlite.org/rescode.html), 0 when there is none.
func resultCode(err error) int {
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// isConstraint: one statement was refused for what it says. Any other error of SQLite may have ended the whole transaction.
func isConstraint(err error) bool { return resultCode(err)&0xff == sqlite3.SQLITE_CONSTRAINT }

// isDuplicate: a row is there already, in either engine.
func isDuplicate(err error) bool {
	code := resultCode(err)
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || postgres.ClassOf(err) == postgres.Duplicate
}

// sentinel puts the sentinel that an error of the driver stands for in front of it. It goes by result code, never by text.
func sentinel(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	switch resultCode(err) & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

func isBusy(err error) bool { return resultCode(err)&0xff == sqlite3.SQLITE_BUSY }
