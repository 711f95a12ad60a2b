// Package sqlite keeps the database of attestd in a file of SQLite: the ways to open one, what an
// error of the driver says, and what guards the file against other processes and other hands. The
// rows and their SQL are those of package store, which calls it.
package sqlite

import (
	"database/sql"
	"database/sql/driver"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
)

// busyTimeout is how long, in milliseconds, a connection waits for a lock that another process
// holds.
const busyTimeout = "5000"

// logLimit is the size in bytes to which the write-ahead log is cut back when it starts over after
// a burst. Its usual size is 4 MiB, at which SQLite makes a checkpoint.
const logLimit = "16777216"

// Mode is a way to open a file, as the query of its address. Each waits for locks, syncs every
// commit, takes no misspelt column for a string, and keeps in memory what SQLite would put into a
// temporary folder, the journals of statements and savepoints above all: nothing is written but the
// database's own folder.
type Mode string

const (
	// the one connection that writes; sets WAL again on a copied or restored file
	ModeWriter Mode = "_journal_mode=WAL&_pragma=journal_size_limit(" + logLimit + ")"
	ModeCreate Mode = "mode=rw&_journal_mode=DELETE"
	ModeReader Mode = "mode=rw&_query_only=1" // beside the writer of this process
	ModeRead   Mode = "mode=ro"               // beside a writer elsewhere, or none
	// reads a file as if nothing could change it, and lays nothing beside it
	ModeRest Mode = ModeRead + "&immutable=1"
	ModeEdit Mode = "mode=rw" // leaves the journal mode of the file as it is
)

// Prepare comes before the first database is opened. Without OFD locks, any code of the process
// that opens and closes the database file would drop SQLite's locks on it. Only Linux has them, and
// no harm is done elsewhere.
func Prepare() { _, _ = sqlite3.OFDLocking(true) }

// DefineFunction gives the SQL of every connection that is opened from now on a function of args
// arguments, which must say the same of the same arguments always. A name can be given once in a
// process; it panics the second time.
func DefineFunction(name string, args int32, fn func(args []driver.Value) (driver.Value, error)) {
	sqlite3.MustRegisterDeterministicScalarFunction(name, args, func(_ *sqlite3.FunctionContext, args []driver.Value) (driver.Value, error) { return fn(args) })
}

// Address is the name of the file at path, which must be absolute, for SQLite. The file: scheme is
// what makes it heed mode.
func Address(path string, mode Mode) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: string(mode)}).String()
}

// Open prepares to open the file at path, which must be absolute. It opens nothing yet. Each
// connection is closed when it is given back.
func Open(path string, mode Mode) (*sql.DB, error) {
	db, err := sql.Open("sqlite", Address(path, mode+
		"&_pragma=temp_store(memory)&_txlock=immediate&_busy_timeout="+busyTimeout+"&_synchronous=FULL&_foreign_keys=1&_dqs=0&_error_rc=1"))
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(0) // to close a connection is to close whatever that had open
	return db, nil
}

// OpenMemory prepares to open empty databases in memory, one for each connection.
func OpenMemory() (*sql.DB, error) { return sql.Open("sqlite", "file::memory:") }

// KeepLog makes SQLite leave the write-ahead log where it is when the last connection closes.
func KeepLog(c *sql.Conn) error {
	return c.Raw(func(driver any) error {
		_, err := driver.(sqlite3.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
}
