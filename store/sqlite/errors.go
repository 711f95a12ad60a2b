package sqlite

import (
	"database/sql"
	"errors"

	sqlite3 "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// Sentinels, which are those of package store too. All are wrapped with context; test with
// errors.Is.
var (
	// the disk cannot be read
	ErrUnavailable = errors.New("storage unavailable")
	// for good
	ErrFileChanged = errors.New("the database file is no longer the one that was opened")
	// another process serves it
	ErrInUse = errors.New("database in use")
	// what it says is to be mended first
	ErrRefused = errors.New("refused")
)

// Class is what an error says of the statement, and of the transaction, that met it.
type Class int

const (
	None Class = iota // no error of SQLite
	// SQLite refused the statement for another reason than those below, such as a table that is not
	// there
	Other
	NoRows // there is no such row
	// one statement was refused for what it says; any error below may have ended the whole
	// transaction
	Constraint
	Duplicate   // the same, for a row that is there already
	Busy        // another connection held its lock for too long; nothing was written
	Full        // a write found no room
	Unavailable // the file cannot be opened, locked, read, written or synced now
	Corrupt     // the file is damaged, or no database
)

// ClassOf tells errors of the driver apart by SQLite's result codes
// (https://www.sqlite.org/rescode.html), never by text.
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

// RolledBack says of the error of a COMMIT that nothing can be left of its transaction. SQLITE_BUSY
// comes before anything is written. SQLITE_FULL comes from a write: the frame that makes a
// transaction one comes last and holds a checksum of itself and all before it, so one that was cut
// short never counts. A sync that found no room is no SQLITE_FULL but an I/O error, after which all
// frames may be there.
func RolledBack(err error) bool {
	class := ClassOf(err)
	return class == Busy || class == Full
}

// resultCode is the extended result code of SQLite behind err, 0 when there is none.
func resultCode(err error) int {
	if e := (*sqlite3.Error)(nil); errors.As(err, &e) {
		return e.Code()
	}
	return 0
}
