package db

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// Check checks what surrounds the chains: the tables, indices and triggers of the file must be
// those of schema, and each row must refer to an existing one. A chain without its guards would
// verify and be unprotected. ErrCorrupt lists all that is wrong.
//
// It reads each table in a separate statement, so that it does not block the checkpoints of a
// running server.
func (d *DB) Check(ctx context.Context, schema string) error { return d.check(ctx, schema, true) }

// CheckGuards is Check without the rows, and so of the same cost whatever a database holds.
func (d *DB) CheckGuards(ctx context.Context, schema string) error {
	return d.check(ctx, schema, false)
}

func (d *DB) check(ctx context.Context, schema string, rows bool) error {
	if d.isPostgres {
		check := postgres.CheckGuards
		if rows {
			check = postgres.Check
		}
		wrong, err := check(ctx, d.pool)
		if err == nil && len(wrong) > 0 {
			err = fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(wrong, "; "))
		}
		return err
	}
	want, err := sqlite.BuildSchema(ctx, schema)
	if err != nil {
		return fmt.Errorf("schema of this program: %w", err)
	}
	return d.Read(ctx, func(r *Conn) error {
		var wrong []string
		if rows {
			var err error
			if wrong, err = r.strayRows(ctx, want); err != nil {
				return fmt.Errorf("check references: %w", err)
			}
		}
		have, err := r.upgradedSchema(ctx)
		if err != nil {
			return fmt.Errorf("check schema: %w", err)
		}
		if wrong = append(wrong, want.Differences(have)...); len(wrong) > 0 {
			return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(wrong, "; "))
		}
		return nil
	})
}

// strayRows counts, for each table of a schema, the rows with a dangling reference.
func (c *Conn) strayRows(ctx context.Context, schema sqlite.Schema) (stray []string, err error) {
	have, err := c.readSchema()
	if err != nil {
		return nil, err
	}
	for _, o := range have {
		if o.Kind != "table" || !schema.HasTable(o.Name) {
			continue
		}
		var n int
		var parent sql.NullString
		err := c.SQL.QueryRowContext(ctx, `SELECT count(*), min("parent") FROM pragma_foreign_key_check(?)`, o.Name).Scan(&n,
			&parent)
		if err != nil {
			return nil, sentinel(err)
		}
		if n > 0 {
			stray = append(stray, fmt.Sprintf("%v refers to a %s that is not there (rows: %d)", o, parent.String, n))
		}
	}
	return stray, nil
}

func (c *Conn) readSchema() (sqlite.Schema, error) {
	found, err := sqlite.ReadSchema(c.ctx, c.SQL)
	return found, sentinel(err)
}

// upgradedSchema returns the schema that the file would have after an upgrade.
func (c *Conn) upgradedSchema(ctx context.Context) (sqlite.Schema, error) {
	have, err := c.readSchema()
	if err != nil {
		return nil, err
	}
	var version int
	if err := c.One([]any{&version}, "PRAGMA user_version"); err != nil || version == SchemaVersion {
		return have, err
	}
	statements := have.Statements()
	for _, m := range migrations[version:] {
		statements = append(statements, m.sql, m.guard)
	}
	upgraded, err := sqlite.BuildSchema(ctx, statements...)
	if err != nil {
		err = misshapen(err)
	}
	return upgraded, err
}

// CheckPages lets SQLite check every page and index. It returns ErrCorrupt if one is damaged.
func (c *Conn) CheckPages(ctx context.Context) error {
	var found string
	err := sentinel(c.SQL.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found))
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: %s", ErrCorrupt, found)
	}
	return err
}
