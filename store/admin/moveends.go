package admin

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

	"attestd/store"
	"attestd/store/db"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// fromRest calls fn with a database and one connection to it, while nothing writes the database.
// unchanged verifies that at the end.
func fromRest(
	ctx context.Context, from string, tables []movedTable,
	fn func(source *store.Store, rows *db.Conn, unchanged func() error) error,
) error {
	if db.IsPostgres(from) {
		return fromServer(ctx, from, tables, fn)
	}
	path, err := db.Absolute(from)
	if err != nil {
		return err
	}
	if _, err := db.Identify(ctx, path); err != nil {
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
	s, err := store.OpenReadOnly(ctx, path)
	if err != nil {
		return err
	}
	defer s.Close()
	if !s.UpToDate() {
		return fmt.Errorf("%w: %s is of an older schema; start attestd serve once, which upgrades it", store.ErrRefused, path)
	}
	mode, err := sqlite.ReadMode(path)
	if err != nil {
		return err
	}
	return db.OnFile(ctx, path, mode, func(c *db.Conn) error {
		var before, after int64
		if err := c.One([]any{&before}, "PRAGMA data_version"); err != nil {
			return err
		}
		return fn(s, c, func() error {
			if err := c.One([]any{&after}, "PRAGMA data_version"); err != nil {
				return err
			}
			if after != before {
				return fmt.Errorf("%w: another program has written %s meanwhile", store.ErrInUse, path)
			}
			return nil
		})
	})
}

func fromServer(
	ctx context.Context, from string, tables []movedTable,
	fn func(*store.Store, *db.Conn, func() error) error,
) error {
	pool, err := postgres.Open(from, new(atomic.Int64))
	if err != nil {
		return db.PostgresError(db.Name(from), err)
	}
	defer pool.Close()
	var own error
	err = postgres.AtRest(ctx, pool, tableNames(tables), func(held *sql.Conn) error {
		var s *store.Store
		if s, own = store.OpenReadOnly(ctx, from); own != nil {
			return own
		}
		defer s.Close()
		c := db.OnPostgres(held)
		// the tables are locked as long as this connection lasts
		own = fn(s, c, func() error { return c.One([]any{new(int64)}, "SELECT count(*) FROM setting") })
		return own
	})
	return cmp.Or(own, db.PostgresError(db.Name(from), err))
}

// filling is a transaction that creates a database, with its connection, which can read it already.
type filling struct {
	*db.Conn
	fill func(ctx context.Context, t movedTable, rows iter.Seq2[[]any, error]) error
}

// intoEmpty creates a new database, which must not exist. It appears when fn has returned nil.
func intoEmpty(ctx context.Context, to, schema string, fn func(target *store.Store, into filling) error) error {
	if db.IsPostgres(to) {
		return intoServer(ctx, to, fn)
	}
	path, err := db.Absolute(to)
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
	err = db.OnFile(ctx, tmp.Path, sqlite.ModeCreate, func(c *db.Conn) error {
		if err := c.Script(ctx, "BEGIN IMMEDIATE; "+schema); err != nil {
			return err
		}
		if err := fn(store.On(path, c), filling{c, insertAll(c)}); err != nil {
			return err
		}
		return c.Script(ctx, "COMMIT; PRAGMA journal_mode = WAL")
	})
	if err == nil {
		err = sqlite.PlaceNew(tmp.Path, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists", store.ErrRefused, path)
	}
	return err
}

func intoServer(ctx context.Context, to string, fn func(*store.Store, filling) error) error {
	pool, err := postgres.Open(to, new(atomic.Int64))
	if err != nil {
		return db.PostgresError(db.Name(to), err)
	}
	defer pool.Close()
	var own error
	err = postgres.Fill(ctx, pool, func(held *sql.Conn) error {
		c := db.OnPostgres(held)
		own = fn(store.On(db.Name(to), c), filling{c,
			func(ctx context.Context, t movedTable, rows iter.Seq2[[]any, error]) error {
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
	return cmp.Or(own, db.PostgresError(db.Name(to), err))
}

// holdable returns ErrRefused for a row with text that SQLite can store and PostgreSQL cannot.
func (t movedTable) holdable(row []any) error {
	for i, v := range row {
		if text, ok := v.(string); ok && (strings.ContainsRune(text, 0) || !utf8.ValidString(text)) {
			return fmt.Errorf("%w: %s of row %v holds the character U+0000, or is not UTF-8; PostgreSQL has no text like that",
				store.ErrRefused, t.columns[i], row[0])
		}
	}
	return nil
}

// insertAll returns a function that inserts rows into the tables of a file. By the time it copies
// the counts of agents, a trigger has inserted them.
func insertAll(c *db.Conn) func(_ context.Context, t movedTable, rows iter.Seq2[[]any, error]) error {
	return func(_ context.Context, t movedTable, rows iter.Seq2[[]any, error]) error {
		if t.name == "company_usage" {
			if _, err := c.Exec("DELETE FROM company_usage"); err != nil {
				return err
			}
		}
		insert := "INSERT INTO " + t.name + " (" + quoted(t.columns) + ") VALUES (?" +
			strings.Repeat(", ?", len(t.columns)-1) + ")"
		for row, err := range rows {
			if err == nil {
				_, err = c.Exec(insert, row...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}
