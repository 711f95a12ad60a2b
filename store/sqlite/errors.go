package sqlite

import (
	"database/sql"
	"errors"

	sqlite3 "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Sentinel errors, which packages db and store reexport. All are returned wrapped; test with
// errors.Is.
var (
	// the disk cannot be read or written
	ErrUnavailable = errors.New("storage unavailable")
	// permanent
	ErrFileChanged = errors.New("the database file is no longer the one that was opened")
	// by another process
	ErrInUse = errors.New("database in use")
	// the operator must first repair what the error describes
	ErrRefused = errors.New("refused")
)

// Class is what an error means for its statement and transaction.
type Class int

const (
	None Class = iota // not an error of SQLite
	// a statement failed for a reason other than those below, such as a missing table
	Other
	NoRows // no row was found
	// a statement violated a constraint; any error below may have ended the whole transaction
	Constraint
	Duplicate   // the same, because a row exists already
	Busy        // another connection held a lock for too long; nothing was written
	Full        // a write found no space
	Unavailable // the file cannot be opened, locked, read, written or synced now
	Corrupt     // the file is damaged, or not a database
)

// ClassOf classifies errors of the driver by SQLite's result codes
// (https://www.sqlite.org/rescode.html), never by their text.
func ClassOf(err error) Class {
	if errors.Is(err, sql.ErrNoRows) {
		return NoRows
	}
	code := resultCode(err)
	switch code {
	case 0:
		return None
	case codes.SQLITE_CONSTRAINT_UNIQUE, codes.SQLITE_CONSTRAINT_PRIMARYKEY:
		return Duplicate
	}
	switch code & 0xff {
	case codes.SQLITE_CONSTRAINT:
		return Constraint
	case codes.SQLITE_BUSY:
		return Busy
	case codes.SQLITE_FULL:
		return Full
	case codes.SQLITE_IOERR, codes.SQLITE_LOCKED, codes.SQLITE_READONLY, codes.SQLITE_CANTOPEN, codes.SQLITE_PERM, codes.SQLITE_NOMEM, codes.SQLITE_PROTOCOL:
		return Unavailable
	case codes.SQLITE_CORRUPT, codes.SQLITE_NOTADB:
		return Corrupt
	}
	return Other
}

// RolledBack reports whether the error of a COMMIT means that nothing of its transaction is left.
// SQLITE_BUSY occurs before anything is written. SQLITE_FULL occurs in a write: the last frame,
// which completes a transaction, contains a checksum of all frames before it, so a truncated one
// never counts. A sync without space is an I/O error instead, after which all frames may be there.
func RolledBack(err error) bool {
	class := ClassOf(err)
	return class == Busy || class == Full
}

// resultCode returns SQLite's extended result code of err, or 0.
func resultCode(err error) int {
	if e := (*sqlite3.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
