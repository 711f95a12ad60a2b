package db

import (
	"context"
	"database/sql"

	"attestd/store/sqlite"
)

// Conn is one connection to the database with its prepared statements. It MUST be used by one
// goroutine at a time.
//
// A read ends with the context of its caller: before its next statement or row, and on a server in
// the middle of a statement. Writes run under a context that cannot be canceled, because an
// interrupted write would abort the other writes of its commit.
type Conn struct {
	SQL     *sql.Conn
	ctx     context.Context // for its statements; see under
	dialect dialect
	stmts   map[string]*sql.Stmt // by their text, which is constant
	// the first error that may have ended the transaction or the connection; see dialect
	Fatal   error
	yielded bool // a row was returned since the last reset

	// replaces an error that calls the database corrupt; may be nil
	OnDamage func(error) error
	// number of losses of server connections when it was dialed, or canceled; see readServer
	generation int64
}

func Dial(ctx context.Context, db *sql.DB) (*Conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, sentinel(err)
	}
	return newConn(c, sqliteDialect), nil
}

// OnPostgres wraps a connection to a PostgreSQL database.
func OnPostgres(c *sql.Conn) *Conn { return newConn(c, postgresDialect) }

func newConn(c *sql.Conn, d dialect) *Conn {
	return &Conn{SQL: c, ctx: context.Background(), dialect: d, stmts: make(map[string]*sql.Stmt)}
}

// under sets the context of reads until restore is called.
func (c *Conn) under(ctx context.Context) (restore func()) {
	before := c.ctx
	c.ctx = ctx
	return func() { c.ctx = before }
}

// OnFile calls fn with a new connection to the file at path.
func OnFile(ctx context.Context, path string, mode sqlite.Mode, fn func(*Conn) error) error {
	PrepareDriver()
	db, err := sqlite.Open(path, mode)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := Dial(ctx, db)
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(c)
}

func (c *Conn) Close() error {
	for _, s := range c.stmts {
		s.Close()
	}
	return c.SQL.Close()
}

// watched returns the context that the driver watches during a statement.
func (c *Conn) watched() context.Context {
	if c.dialect.isRemote {
		return c.ctx
	}
	return context.Background()
}

func (c *Conn) prepare(query string) (*sql.Stmt, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.SQL.PrepareContext(c.watched(), c.dialect.bind(query))
	if err != nil {
		return nil, c.failed(err)
	}
	c.stmts[query] = s
	return s, nil
}

// canceled is the generation of a connection that a context has ended in the middle of a statement.
const canceled = -1

// failed converts err to a sentinel, and records it in fatal if it may have ended more than its
// statement. The end of the context is not a failure of the database.
func (c *Conn) failed(err error) error {
	if ended := c.ctx.Err(); ended != nil {
		c.generation = canceled
		return ended
	}
	err, fatal := c.dialect.judge(err)
	if c.OnDamage != nil && IsDamage(err) {
		err = c.OnDamage(err)
	}
	if c.Fatal == nil && fatal {
		c.Fatal = err
	}
	return err
}

// Exec runs a statement and returns the number of rows that it changed.
func (c *Conn) Exec(query string, args ...any) (int64, error) {
	s, err := c.prepare(query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(c.watched(), c.dialect.arguments(args)...)
	if err != nil {
		return 0, c.failed(err)
	}
	return r.RowsAffected()
}

// One reads the first row of a query into dest. It returns ErrNotFound if there is none.
func (c *Conn) One(dest []any, query string, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	if err := s.QueryRowContext(c.watched(), c.dialect.arguments(args)...).Scan(dest...); err != nil {
		return c.failed(err)
	}
	return nil
}

// Each calls row for every row of a query. An error of row ends the query and is returned
// unchanged.
func (c *Conn) Each(row func(*sql.Rows) error, query string, args ...any) error {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(c.watched(), c.dialect.arguments(args)...)
	if err != nil {
		return c.failed(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := c.ctx.Err(); err != nil {
			return c.failed(err)
		}
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

// Script runs statements without preparing them, until ctx is done.
func (c *Conn) Script(ctx context.Context, script string, args ...any) error {
	_, err := c.SQL.ExecContext(ctx, script, args...)
	return sentinel(err)
}

// CopyPaced copies the database of a connection to the empty file at path; see sqlite.CopyPaced.
func (c *Conn) CopyPaced(ctx context.Context, path string, paced func(done, total int64) error) error {
	return sentinel(sqlite.CopyPaced(ctx, c.SQL, path, paced))
}
