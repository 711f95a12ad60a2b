package store

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// Check looks at what stands beside the chains: that the tables, indices and triggers of the file are those of schema, and that each row
// belongs to one that is there. Without its guards a chain would verify and lie open. ErrCorrupt, which names all that is wrong.
//
// It reads each table once in a statement of its own, so that it does not keep a running server from checkpoints.
func (s *Store) Check(ctx context.Context, schema string) error {
	if s.server {
		wrong, err := postgres.Check(ctx, s.db)
		if err == nil && len(wrong) > 0 {
			err = fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(wrong, "; "))
		}
		return err
	}
	want, err := buildSchema(ctx, schema)
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
		if wrong = append(wrong, want.differences(have)...); len(wrong) > 0 {
			return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(wrong, "; "))
		}
		return nil
	})
}

// strayRows counts, for each table of a schema, the rows that refer to one that is not there.
func (c *conn) strayRows(ctx context.Context, schema objects) (stray []string, err error) {
	have, err := c.readSchema()
	if err != nil {
		return nil, err
	}
	for _, o := range have {
		if o.kind != "table" || !schema.hasTable(o.name) {
			continue
		}
		var n int
		var parent sql.NullString
		err := c.sql.QueryRowContext(ctx, `SELECT count(*), min("parent") FROM pragma_foreign_key_check(?)`, o.name).Scan(&n, &parent)
		if err != nil {
			return nil, sentinel(err)
		}
		if n > 0 {
			stray = append(stray, fmt.Sprintf("%v refers to a %s that is not there (rows: %d)", o, parent.String, n))
		}
	}
	return stray, nil
}

// object is a table, index, trigger or view of a database.
type object struct{ kind, name, table, sql string }

func (o object) String() string { return o.kind + " " + o.name }

// objects is a schema, in the order of names.
type objects []object

func (list objects) hasTable(name string) bool {
	return slices.ContainsFunc(list, func(o object) bool { return o.kind == "table" && o.name == name })
}

// readSchema leaves out what SQLite keeps for itself: indices that follow from a table, and its statistics.
func (c *conn) readSchema() (found objects, err error) {
	err = c.each(func(rows *sql.Rows) error {
		var o object
		err := rows.Scan(&o.kind, &o.name, &o.table, &o.sql)
		found = append(found, o)
		return err
	}, `SELECT type, name, tbl_name, sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND NOT (type = 'table' AND name LIKE 'sqlite\_%' ESCAPE '\') ORDER BY name`)
	return found, err
}

// upgradedSchema is the schema of the file as it would be after an upgrade to that of this program.
func (c *conn) upgradedSchema(ctx context.Context) (objects, error) {
	have, err := c.readSchema()
	if err != nil {
		return nil, err
	}
	var version int
	if err := c.one([]any{&version}, "PRAGMA user_version"); err != nil || version == schemaVersion {
		return have, err
	}
	var statements []string
	for _, kind := range []string{"table", "index", "trigger", "view"} { // each needs those before it
		for _, o := range have {
			if o.kind == kind {
				statements = append(statements, o.sql)
			}
		}
	}
	for _, m := range migrations[version:] {
		statements = append(statements, m.sql, m.guard)
	}
	upgraded, err := buildSchema(ctx, statements...)
	if err != nil {
		err = misshapen(err)
	}
	return upgraded, err
}

// buildSchema carries out statements in an empty database in memory, and returns what they make.
func buildSchema(ctx context.Context, statements ...string) (objects, error) {
	db, err := sqlite.OpenMemory()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, err := dial(ctx, db)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, statement := range statements {
		if _, err := c.sql.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return c.readSchema()
}

// differences says what have lacks, what is another there, and what it adds to a table of want. Tables, indices and views beside those
// are the operator's own.
func (want objects) differences(have objects) (found []string) {
	for _, w := range want {
		at := slices.IndexFunc(have, func(h object) bool { return h.name == w.name && h.kind == w.kind })
		switch {
		case at < 0:
			found = append(found, fmt.Sprintf("%v is missing", w))
		case have[at].table != w.table || !slices.Equal(tokens(have[at].sql), tokens(w.sql)):
			found = append(found, fmt.Sprintf("%v is not the one of this program", w))
		}
	}
	for _, h := range have {
		if want.hasTable(h.table) && !slices.ContainsFunc(want, func(w object) bool { return w.name == h.name }) {
			found = append(found, fmt.Sprintf("%v on table %s is not one of this program", h, h.table))
		}
	}
	return found
}

// sqlToken matches a token of SQL, a comment or blanks.
var sqlToken = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|\s+|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|.`)

// tokens splits a statement into its tokens: what an upgrade leaves of a statement has other blanks and comments than schema.sql.
func tokens(statement string) []string {
	return slices.DeleteFunc(sqlToken.FindAllString(statement, -1), func(token string) bool {
		return strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*") || strings.TrimSpace(token) == ""
	})
}
