package store

import (
	"context"
	"database/sql"

	"attestd/chain"
	"attestd/store/sqlite"
)

// What package admin builds on. No server calls it: a Conn reads and writes any row, past all that
// the methods of a Store hold.

// The first schemas in which a database has what they are named after.
const (
	SchemaTwoLogs      = twoLogs
	SchemaKeys         = keysSchema
	SchemaFingerprints = fingerprintSchema
	SchemaWitness      = witnessSchema
)

// Conn is one connection to a database. One goroutine at a time uses it.
type Conn struct{ conn *conn }

// Exec runs a statement and returns the number of rows that it changed.
func (c Conn) Exec(query string, args ...any) (int64, error) { return c.conn.exec(query, args...) }

// One reads the first row of a query into dest; ErrNotFound when there is none.
func (c Conn) One(dest []any, query string, args ...any) error {
	return c.conn.one(dest, query, args...)
}

// Each calls row for every row of a query. An error of row ends it and is returned as it is.
func (c Conn) Each(row func(*sql.Rows) error, query string, args ...any) error {
	return c.conn.each(row, query, args...)
}

// Script runs statements that nothing remembers, until ctx is done.
func (c Conn) Script(ctx context.Context, script string, args ...any) error {
	_, err := c.conn.sql.ExecContext(ctx, script, args...)
	return sentinel(err)
}

// CheckPages lets SQLite check every page and index of a file; ErrCorrupt.
func (c Conn) CheckPages(ctx context.Context) error { return c.conn.checkPages(ctx) }

// OnFile calls fn with a connection of its own to the file at path.
func OnFile(ctx context.Context, path string, mode sqlite.Mode, fn func(Conn) error) error {
	prepareDriver()
	return onFile(ctx, path, mode, func(c *conn) error { return fn(Conn{c}) })
}

// OnPostgres is a connection to a database of PostgreSQL.
func OnPostgres(c *sql.Conn) Conn { return Conn{newConn(c, postgresDialect)} }

// Read calls fn with a connection that reads.
func (s *Store) Read(ctx context.Context, fn func(Conn) error) error {
	return s.read(ctx, func(c *conn) error { return fn(Conn{c}) })
}

// Change makes rows durable, and with them the records of the drafts that fn returns; see
// chain.Log.Write for what fn must heed.
func (s *Store) Change(ctx context.Context, fn func(Conn) ([]chain.Draft, error)) error {
	_, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) { return fn(Conn{w}) })
	return err
}

// On is a Store to be read, all of it on one connection, which sees what its own transaction has
// written. name is that of the database.
func On(name string, c Conn) *Store {
	s := newStore(name)
	s.schema.Store(schemaVersion)
	s.idle <- c.conn
	return s
}

// PostgresError puts the name of a database and the sentinel of this package in front of an error
// of package postgres; nil for nil.
func PostgresError(name string, err error) error { return namedServer(name, err) }
