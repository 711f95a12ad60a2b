// Package sqlite stores the database of attestd in a SQLite file. It implements how to open the
// file, classifies the driver's errors, and protects the file from other processes and programs.
// Package store, which calls it, has the rows and their SQL.
package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
)

// busyTimeout is how long, in milliseconds, a connection waits for another process's lock.
const busyTimeout = "5000"

// logLimit is the size in bytes to which the write-ahead log is truncated when it restarts after a
// burst. Its usual size is 4 MiB, at which SQLite makes a checkpoint.
const logLimit = "16777216"

// Mode is a way to open a file, as the query of its URL. In every mode, SQLite waits for locks,
// syncs every commit, treats no misspelled column as a string, and keeps in memory what it would
// write to a temporary folder, mainly statement journals and savepoints. So it writes only to the
// database's folder.
type Mode string

const (
	// for the only connection that writes; sets WAL again on a copied or restored file
	ModeWriter Mode = "_journal_mode=WAL&_pragma=journal_size_limit(" + logLimit + ")"
	ModeCreate Mode = "mode=rw&_journal_mode=DELETE"
	ModeReader Mode = "mode=rw&_query_only=1" // while this process writes
	ModeRead   Mode = "mode=ro"               // with or without another writer
	// reads an immutable file, and creates no other file
	ModeRest Mode = ModeRead + "&immutable=1"
	ModeEdit Mode = "mode=rw" // keeps the journal mode of the file
)

// Prepare MUST be called before the first database is opened. Without OFD locks, any code in the
// process that opens and closes the database file would release SQLite's locks on it. Only Linux
// has them; elsewhere the call has no effect.
func Prepare() { _, _ = sqlite3.OFDLocking(true) }

// DefineFunction defines a deterministic SQL function with args arguments on every connection that
// is opened later. It panics if the name is defined already.
func DefineFunction(name string, args int32, fn func(args []driver.Value) (driver.Value, error)) {
	sqlite3.MustRegisterDeterministicScalarFunction(name, args,
		func(_ *sqlite3.FunctionContext, args []driver.Value) (driver.Value, error) { return fn(args) })
}

// Address returns the URL of the file at path, which MUST be absolute, for SQLite. SQLite honors
// the mode only with the scheme file:.
func Address(path string, mode Mode) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: string(mode)}).String()
}

// Open returns a database for the file at path, which MUST be absolute, without opening it. Each
// connection is closed on release.
func Open(path string, mode Mode) (*sql.DB, error) {
	options := mode + "&_pragma=temp_store(memory)&_txlock=immediate&_busy_timeout=" + busyTimeout +
		"&_foreign_keys=1&_dqs=0&_error_rc=1"
	switch mode {
	case ModeReader, ModeRead, ModeRest:
		// FULL is SQLite's default. To set it would make every connection parse the schema when it
		// is opened, although many are opened and few of them read.
	default:
		options += "&_synchronous=FULL"
	}
	db, err := sql.Open("sqlite", Address(path, options))
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(0) // closing a connection releases everything that it had open
	return db, nil
}

// OpenMemory returns a database with an empty database in memory for each connection.
func OpenMemory() (*sql.DB, error) { return sql.Open("sqlite", "file::memory:") }

// PersistLog makes SQLite keep the write-ahead log when the last connection closes.
func PersistLog(c *sql.Conn) error {
	return c.Raw(func(driver any) error {
		_, err := driver.(sqlite3.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
}
