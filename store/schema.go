package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// Check looks at what stands beside the chains: that the tables, indices and triggers of the file
// are those of schema, and that each row belongs to one that is there. Without its guards a chain
// would verify and lie open. ErrCorrupt, which names all that is wrong.
//
// It reads each table once in a statement of its own, so that it does not keep a running server
// from checkpoints.
func (s *Store) Check(ctx context.Context, schema string) error {
	if s.isPostgres {
		wrong, err := postgres.Check(ctx, s.db)
		if err == nil && len(wrong) > 0 {
			err = fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(wrong, "; "))
		}
		return err
	}
	want, err := sqlite.BuildSchema(ctx, schema)
	if err != nil {
		return fmt.Errorf("schema of this program: %w", err)
	}
	return s.read(ctx, func(r *conn) error {
		wrong, err := r.strayRows(ctx, want)
		if err != nil {
			return fmt.Errorf("check references: %w", err)
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

// strayRows counts, for each table of a schema, the rows that refer to one that is not there.
func (c *conn) strayRows(ctx context.Context, schema sqlite.Schema) (stray []string, err error) {
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
		err := c.sql.QueryRowContext(ctx, `SELECT count(*), min("parent") FROM pragma_foreign_key_check(?)`, o.Name).Scan(&n, &parent)
		if err != nil {
			return nil, sentinel(err)
		}
		if n > 0 {
			stray = append(stray, fmt.Sprintf("%v refers to a %s that is not there (rows: %d)", o, parent.String, n))
		}
	}
	return stray, nil
}

func (c *conn) readSchema() (sqlite.Schema, error) {
	found, err := sqlite.ReadSchema(c.ctx, c.sql)
	return found, sentinel(err)
}

// upgradedSchema is the schema of the file as it would be after an upgrade to that of this program.
func (c *conn) upgradedSchema(ctx context.Context) (sqlite.Schema, error) {
	have, err := c.readSchema()
	if err != nil {
		return nil, err
	}
	var version int
	if err := c.one([]any{&version}, "PRAGMA user_version"); err != nil || version == schemaVersion {
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

// checkPages lets SQLite check every page and index; ErrCorrupt.
func (c *conn) checkPages(ctx context.Context) error {
	var found string
	err := sentinel(c.sql.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found))
	if err == nil && found != "ok" {
		err = fmt.Errorf("%w: %s", ErrCorrupt, found)
	}
	return err
}
