package store

import (
	"context"
	"database/sql"

	"attestd/chain"
	"attestd/store/sqlite"
)

// The declarations below are for package admin. No server calls them: a Conn reads and writes any
// row, past the checks in the methods of a Store.

// The first schemas with the named feature.
const (
	SchemaTwoLogs      = twoLogs
	SchemaKeys         = keysSchema
	SchemaFingerprints = fingerprintSchema
	SchemaWitness      = witnessSchema
)

// Conn is one connection to a database. It MUST be used by one goroutine at a time.
type Conn struct{ conn *conn }

// Exec runs a statement and returns the number of rows that it changed.
func (c Conn) Exec(query string, args ...any) (int64, error) { return c.conn.exec(query, args...) }

// One reads the first row of a query into dest. It returns ErrNotFound if there is none.
func (c Conn) One(dest []any, query string, args ...any) error {
	return c.conn.one(dest, query, args...)
}

// Each calls row for every row of a query. An error of row ends the query and is returned
// unchanged.
func (c Conn) Each(row func(*sql.Rows) error, query string, args ...any) error {
	return c.conn.each(row, query, args...)
}

// Script runs statements without preparing them, until ctx is done.
func (c Conn) Script(ctx context.Context, script string, args ...any) error {
	_, err := c.conn.sql.ExecContext(ctx, script, args...)
	return sentinel(err)
}

// CheckPages lets SQLite check every page and index of a file. It returns ErrCorrupt if one is
// damaged.
func (c Conn) CheckPages(ctx context.Context) error { return c.conn.checkPages(ctx) }

// OnFile calls fn with a new connection to the file at path.
func OnFile(ctx context.Context, path string, mode sqlite.Mode, fn func(Conn) error) error {
	prepareDriver()
	return onFile(ctx, path, mode, func(c *conn) error { return fn(Conn{c}) })
}

// OnPostgres wraps a connection to a PostgreSQL database.
func OnPostgres(c *sql.Conn) Conn { return Conn{newConn(c, postgresDialect)} }

// Read calls fn with a connection for reading.
func (s *Store) Read(ctx context.Context, fn func(Conn) error) error {
	return s.read(ctx, func(c *conn) error { return fn(Conn{c}) })
}

// Change commits rows, and with them the records of the drafts that fn returns; see chain.Log.Write
// for what fn MUST observe.
func (s *Store) Change(ctx context.Context, fn func(Conn) ([]chain.Draft, error)) error {
	_, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) { return fn(Conn{w}) })
	return err
}

// On returns a Store for reading on one connection only, which sees the writes of its own
// transaction. name is the name of the database.
func On(name string, c Conn) *Store {
	s := newStore(name)
	s.schema.Store(schemaVersion)
	s.idle <- c.conn
	return s
}

// PostgresError adds the name of a database and the sentinel of this package to an error of package
// postgres. It returns nil for nil.
func PostgresError(name string, err error) error { return namedServer(name, err) }
