package store

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
)

// busyTimeout is how long, in milliseconds, a connection waits for a lock that another process holds.
const busyTimeout = "5000"

// checkpointPages is how long the write-ahead log becomes, in pages of 4 KiB, before a commit moves it into the file: 16 MiB. Appends to thousands of
// chains write the same pages of heads over and over, which are moved once each. One table of SQLite's index of the log holds 4,062 pages.
const checkpointPages = "4000"

// logLimit is the size in bytes to which the write-ahead log is cut back when it starts over after a burst. It is above checkpointPages and a large
// commit: a log that were cut back each time would have to take its place on the disk again.
const logLimit = "25165824"

// The ways to open a file. Each waits for locks, syncs every commit, takes no misspelt column for a string, and keeps in memory what SQLite would
// put into a temporary folder, the journals of statements and savepoints above all: nothing is written but the database's own folder.
const (
	modeWriter = "_journal_mode=WAL&_pragma=journal_size_limit(" + logLimit + ")&_pragma=wal_autocheckpoint(" + checkpointPages + ")" // the one connection that writes; sets WAL again on a copied or restored file
	modeCreate = "mode=rw&_journal_mode=DELETE"
	modeReader = "mode=rw&_query_only=1" // beside the writer of this process
	modeRead   = "mode=ro"               // beside a writer elsewhere, or none
)

// address is the name of the file at path, which must be absolute, for SQLite. The file: scheme is what makes it heed mode.
func address(path, mode string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: mode}).String()
}

// connect prepares to open the file at path.
func connect(path, mode string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", address(path, mode+
		"&_pragma=temp_store(memory)&_txlock=immediate&_busy_timeout="+busyTimeout+"&_synchronous=FULL&_foreign_keys=1&_dqs=0&_error_rc=1"))
	if err != nil {
		return nil, err
	}
	db.SetMaxIdleConns(0) // to close a conn is to close its connection, and whatever that had open
	return db, nil
}

// conn is one connection to the file and the statements that it has prepared. One goroutine at a time uses it.
//
// Its statements run under a context that nobody can cancel: an interrupted write would take the other writes of its commit
// with it, and a watched read costs a goroutine. Who reads long looks at its own context between rows.
type conn struct {
	sql     *sql.Conn
	dialect dialect
	stmts   map[string]*sql.Stmt // by their text, which is constant
	fatal   error                // the first error after which the transaction, or the connection, may have ended; see dialect
	yielded bool                 // a row was handed out since this was last cleared

	generation int64 // of the connections that were lost together; see readServer
}

func dial(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, sentinel(err)
	}
	return newConn(c, sqliteDialect), nil
}

func newConn(c *sql.Conn, d dialect) *conn {
	return &conn{sql: c, dialect: d, stmts: make(map[string]*sql.Stmt)}
}

// onFile calls fn with a connection of its own to the file at path.
func onFile(ctx context.Context, path, mode string, fn func(*conn) error) error {
	db, err := connect(path, mode)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := dial(ctx, db)
	if err != nil {
		return err
	}
	defer c.close()
	return fn(c)
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return c.sql.Close()
}

// keepLog makes SQLite leave the write-ahead log where it is when the last connection closes.
func (c *conn) keepLog() error {
	return c.sql.Raw(func(driver any) error {
		_, err := driver.(sqlite.FileControl).FileControlPersistWAL("main", 1)
		return err
	})
}

func (c *conn) prepare(query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.sql.PrepareContext(context.Background(), c.dialect.bind(query))
	if err != nil {
		return nil, c.failed(err)
	}
	c.stmts[query] = s
	return s, nil
}

// failed keeps err in mind when it may have cost more than its statement, and makes a sentinel of it.
func (c *conn) failed(err error) error {
	err, fatal := c.dialect.judge(err)
	if c.fatal == nil && fatal {
		c.fatal = err
	}
	return err
}

// exec runs a statement and returns the number of rows that it changed.
func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), c.dialect.arguments(args)...)
	if err != nil {
		return 0, c.failed(err)
	}
	return r.RowsAffected()
}

// one reads the first row of a query into dest; ErrNotFound when there is none.
func (c *conn) one(dest []any, query string, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	if err := s.QueryRowContext(context.Background(), c.dialect.arguments(args)...).Scan(dest...); err != nil {
		return c.failed(err)
	}
	return nil
}

// each calls row for every row of a query. An error of row ends it and is returned as it is.
func (c *conn) each(row func(*sql.Rows) error, query string, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(context.Background(), c.dialect.arguments(args)...)
	if err != nil {
		return c.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		c.yielded = true
		if err := row(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return c.failed(err)
	}
	return nil
}
