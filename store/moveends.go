package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// fromRest calls fn with a database that nothing writes meanwhile, and one connection to it.
// unchanged says at the end whether that was so.
func fromRest(ctx context.Context, from string, tables []movedTable, fn func(source *Store, rows *conn, unchanged func() error) error) error {
	if IsServer(from) {
		return fromServer(ctx, from, tables, fn)
	}
	prepareDriver()
	path, err := absolute(from)
	if err != nil {
		return err
	}
	if _, err := identify(ctx, path); err != nil {
		return err
	}
	l, err := sqlite.LockName(path)
	if err != nil {
		return err
	}
	defer l.Unlock()
	if err := l.LockFile(path); err != nil {
		return err
	}
	s, err := OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.UpToDate() {
		return fmt.Errorf("%w: %s is of an older schema; start attestd serve once, which upgrades it", ErrRefused, path)
	}
	mode, err := sqlite.ReadMode(path)
	if err != nil {
		return err
	}
	return onFile(ctx, path, mode, func(c *conn) error {
		var before, after int64
		if err := c.one([]any{&before}, "PRAGMA data_version"); err != nil {
			return err
		}
		return fn(s, c, func() error {
			if err := c.one([]any{&after}, "PRAGMA data_version"); err != nil {
				return err
			}
			if after != before {
				return fmt.Errorf("%w: another program has written %s meanwhile", ErrInUse, path)
			}
			return nil
		})
	})
}

func fromServer(ctx context.Context, from string, tables []movedTable, fn func(*Store, *conn, func() error) error) error {
	s, _, err := dialServer(from)
	if err != nil {
		return err
	}
	defer s.Close()
	var own error
	err = postgres.AtRest(ctx, s.db, tableNames(tables), func(held *sql.Conn) error {
		if own = s.identifyServer(ctx); own != nil {
			return own
		}
		c := newConn(held, postgresDialect)
		// the tables are held for as long as this connection lasts
		own = fn(s, c, func() error { return c.one([]any{new(int64)}, "SELECT count(*) FROM setting") })
		return own
	})
	return cmp.Or(own, s.namedServer(err))
}

// filling is a transaction that makes a database, on the connection on which it can be read
// already.
type filling struct {
	*conn
	fill func(ctx context.Context, t movedTable, rows iter.Seq2[[]any, error]) error
}

// intoEmpty makes a new database where there is none. It is there when fn has returned nil, and not
// before.
func intoEmpty(ctx context.Context, to, schema string, fn func(target *Store, into filling) error) error {
	if IsServer(to) {
		return intoServer(ctx, to, fn)
	}
	prepareDriver()
	path, err := absolute(to)
	if err != nil {
		return err
	}
	l, err := checkTarget(ctx, path, false)
	if err != nil {
		return err
	}
	defer l.Unlock()
	tmp, err := sqlite.NewTemp(path)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	err = onFile(ctx, tmp.Path, sqlite.ModeCreate, func(c *conn) error {
		if _, err := c.sql.ExecContext(ctx, "BEGIN IMMEDIATE; "+schema); err != nil {
			return sentinel(err)
		}
		if err := fn(onlyOn(path, c), filling{c, c.insertAll}); err != nil {
			return err
		}
		_, err := c.sql.ExecContext(ctx, "COMMIT; PRAGMA journal_mode = WAL")
		return sentinel(err)
	})
	if err == nil {
		err = sqlite.PlaceNew(tmp.Path, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists", ErrRefused, path)
	}
	return err
}

func intoServer(ctx context.Context, to string, fn func(*Store, filling) error) error {
	db, err := postgres.Open(to, new(atomic.Int64))
	if err != nil {
		return namedServer(Name(to), err)
	}
	defer db.Close()
	var own error
	err = postgres.Fill(ctx, db, func(held *sql.Conn) error {
		c := newConn(held, postgresDialect)
		own = fn(onlyOn(Name(to), c), filling{c, func(ctx context.Context, t movedTable, rows iter.Seq2[[]any, error]) error {
			next, stop := iter.Pull2(rows)
			defer stop()
			return postgres.Copy(ctx, held, t.name, t.columns, func() ([]any, error) {
				row, err, _ := next()
				if err == nil {
					err = t.holdable(row)
				}
				return row, err
			})
		}})
		return own
	})
	return cmp.Or(own, namedServer(Name(to), err))
}

// holdable refuses a row with text that PostgreSQL cannot hold and SQLite can.
func (t movedTable) holdable(row []any) error {
	for i, v := range row {
		if text, ok := v.(string); ok && (strings.ContainsRune(text, 0) || !utf8.ValidString(text)) {
			return fmt.Errorf("%w: %s of row %v holds the character U+0000, or is not UTF-8; PostgreSQL has no text like that", ErrRefused, t.columns[i], row[0])
		}
	}
	return nil
}

// onlyOn is a store to be read, all of it on one connection, which sees what its own transaction
// has written.
func onlyOn(path string, c *conn) *Store {
	s := newStore(path)
	s.schema.Store(schemaVersion)
	s.idle <- c
	return s
}

// insertAll writes rows into a table of a file. Its trigger has counted the agents by the time that
// the counts come.
func (c *conn) insertAll(_ context.Context, t movedTable, rows iter.Seq2[[]any, error]) error {
	if t.name == "company_usage" {
		if _, err := c.exec("DELETE FROM company_usage"); err != nil {
			return err
		}
	}
	insert := "INSERT INTO " + t.name + " (" + quoted(t.columns) + ") VALUES (?" + strings.Repeat(", ?", len(t.columns)-1) + ")"
	for row, err := range rows {
		if err == nil {
			_, err = c.exec(insert, row...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
