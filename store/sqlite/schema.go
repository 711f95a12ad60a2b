package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Object is a table, index, trigger or view of a database, with the statement that created it.
type Object struct{ Kind, Name, Table, SQL string }

func (o Object) String() string { return o.Kind + " " + o.Name }

// Schema lists the objects of a database, ordered by name.
type Schema []Object

// ReadSchema reads the schema of a database. It omits SQLite's internal objects: indices that
// follow from a table, and statistics.
func ReadSchema(ctx context.Context, c *sql.Conn) (found Schema, err error) {
	rows, err := c.QueryContext(ctx, `SELECT type, name, tbl_name, sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND NOT (type = 'table' AND name LIKE 'sqlite\_%' ESCAPE '\') ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var o Object
		if err := rows.Scan(&o.Kind, &o.Name, &o.Table, &o.SQL); err != nil {
			return nil, err
		}
		found = append(found, o)
	}
	return found, rows.Err()
}

// BuildSchema runs statements in an empty database in memory, and returns the resulting schema.
func BuildSchema(ctx context.Context, statements ...string) (Schema, error) {
	db, err := OpenMemory()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for _, statement := range statements {
		if _, err := c.ExecContext(ctx, statement); err != nil {
			return nil, err
		}
	}
	return ReadSchema(ctx, c)
}

// Statements returns the statements that create the schema in an empty database. Each kind of
// object needs those before it.
func (list Schema) Statements() (statements []string) {
	for _, kind := range []string{"table", "index", "trigger", "view"} {
		for _, o := range list {
			if o.Kind == kind {
				statements = append(statements, o.SQL)
			}
		}
	}
	return statements
}

// HasTable reports whether the schema has a table with a name.
func (list Schema) HasTable(name string) bool {
	return slices.ContainsFunc(list, func(o Object) bool { return o.Kind == "table" && o.Name == name })
}

// Differences describes what is missing from have, what differs, and what was added to a table of
// want, a phrase each. Other tables, indices and views are ignored.
func (want Schema) Differences(have Schema) (found []string) {
	for _, w := range want {
		at := slices.IndexFunc(have, func(h Object) bool { return h.Name == w.Name && h.Kind == w.Kind })
		switch {
		case at < 0:
			found = append(found, fmt.Sprintf("%v is missing", w))
		case have[at].Table != w.Table || !slices.Equal(tokens(have[at].SQL), tokens(w.SQL)):
			found = append(found, fmt.Sprintf("%v is not the one of this program", w))
		}
	}
	for _, h := range have {
		if want.HasTable(h.Table) && !slices.ContainsFunc(want, func(w Object) bool { return w.Name == h.Name }) {
			found = append(found, fmt.Sprintf("%v on table %s is not one of this program", h, h.Table))
		}
	}
	return found
}

// sqlToken matches a token of SQL, a comment or whitespace.
var sqlToken = regexp.MustCompile(`(?s)--[^\n]*|/\*.*?\*/|\s+|'(?:[^']|'')*'|"(?:[^"]|"")*"|\w+|.`)

// tokens splits a statement into its tokens, because an upgraded schema has other whitespace and
// comments than schema.sql.
func tokens(statement string) []string {
	return slices.DeleteFunc(sqlToken.FindAllString(statement, -1), func(token string) bool {
		return strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*") || strings.TrimSpace(token) == ""
	})
}
