package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"attestd/chain"
	"attestd/store/headfile"
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

// Filled tells a Store of On that its database has its rows: what the settings say counts from then
// on.
func (s *Store) Filled(ctx context.Context) error {
	return s.read(ctx, func(c *conn) (err error) {
		s.settings, err = settingsOf(c)
		return err
	})
}

// PostgresError adds the name of a database and the sentinel of this package to an error of package
// postgres. It returns nil for nil.
func PostgresError(name string, err error) error { return namedServer(name, err) }

// CopyPaced copies the database of a connection to the empty file at path; see sqlite.CopyPaced.
func (c Conn) CopyPaced(ctx context.Context, path string, paced func(done, total int64) error) error {
	return sentinel(sqlite.CopyPaced(ctx, c.conn.sql, path, paced))
}

// DatabaseID identifies a database and its copies.
func (s *Store) DatabaseID(ctx context.Context) (headfile.ID, error) { return s.databaseID(ctx) }

// Heads returns the state of all logs, in the order of their chains.
func (s Rollback) Heads(ctx context.Context) ([]headfile.Head, error) {
	logs, err := s.loggedHeads(ctx)
	if err != nil {
		return nil, err
	}
	heads := make([]headfile.Head, 0, len(logs))
	for _, l := range logs {
		heads = append(heads, l.Head)
	}
	slices.SortFunc(heads, func(a, b headfile.Head) int { return cmp.Compare(a.Chain, b.Chain) })
	return heads, nil
}

// CheckHeads compares a database with known heads. It returns a *RolledBackError if the database is
// behind one of them, or has another history.
func (s Rollback) CheckHeads(ctx context.Context, known []headfile.Head) error {
	behind, err := s.compare(ctx, func(yield func(headfile.Head) error) error {
		for _, h := range known {
			if err := yield(h); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && len(behind) > 0 {
		err = &RolledBackError{behind}
	}
	return err
}
