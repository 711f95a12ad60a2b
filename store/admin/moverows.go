package admin

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strings"

	"attestd/store/db"
	"attestd/store/sqlite"
)

// movedTable is a table that both engines have.
type movedTable struct {
	name         string
	columns, key []string
}

// movedTables reads the tables, columns and keys from schema, so it cannot miss a new one. A table
// follows those that it references, and otherwise has the order of schema. The tables that only
// PostgreSQL has are about running servers, and start empty.
func movedTables(ctx context.Context, schema string) (tables []movedTable, err error) {
	db, err := sqlite.OpenMemory()
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, `SELECT t.name, c.name, c.pk FROM sqlite_schema t, pragma_table_info(t.name) c
		WHERE t.type = 'table' ORDER BY t.rowid, c.cid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table, column string
		var key int
		if err := rows.Scan(&table, &column, &key); err != nil {
			return nil, err
		}
		if len(tables) == 0 || tables[len(tables)-1].name != table {
			tables = append(tables, movedTable{name: table})
		}
		t := &tables[len(tables)-1]
		t.columns = append(t.columns, column)
		if key > 0 {
			t.key = append(t.key, column)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	references, err := referencesOf(ctx, db)
	if err != nil {
		return nil, err
	}
	var sorted []movedTable
	for len(tables) > 0 {
		waits := func(t movedTable) bool {
			return slices.ContainsFunc(tables, func(of movedTable) bool { return of.name != t.name && references[t.name][of.name] })
		}
		next := slices.IndexFunc(tables, func(t movedTable) bool { return !waits(t) })
		if next < 0 {
			return nil, fmt.Errorf("the tables %s reference one another", quoted(tableNames(tables)))
		}
		sorted = append(sorted, tables[next])
		tables = slices.Delete(tables, next, next+1)
	}
	return sorted, nil
}

// referencesOf returns which tables each table references.
func referencesOf(ctx context.Context, db *sql.DB) (map[string]map[string]bool, error) {
	rows, err := db.QueryContext(ctx, `SELECT t.name, f."table" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f WHERE t.type = 'table'`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	references := make(map[string]map[string]bool)
	for rows.Next() {
		var table, of string
		if err := rows.Scan(&table, &of); err != nil {
			return nil, err
		}
		if references[table] == nil {
			references[table] = make(map[string]bool)
		}
		references[table][of] = true
	}
	return references, rows.Err()
}

func tableNames(tables []movedTable) (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

// selection returns the SQL for all rows of a table. It omits settings that belong to one database:
// the version of a PostgreSQL schema, a pending scrub after a change of the master key, and pending
// control records, to which a move adds its own.
func (t movedTable) selection() string {
	where := ""
	if t.name == "setting" {
		where = " WHERE name NOT IN ('schema', 'schema_compatible', 'scrub', 'unrecorded')"
	}
	return "SELECT " + quoted(t.columns) + " FROM " + t.name + where + " ORDER BY " + quoted(t.key)
}

// rows reads all rows in the order of their keys, adds them to d, and calls report occasionally. A
// value is an int64, a string, a non-nil []byte, or nil. A row is valid until the next one is read.
func (t movedTable) rows(ctx context.Context, c *db.Conn, d *rowDigest, report func()) iter.Seq2[[]any, error] {
	return func(yield func([]any, error) bool) {
		row, into := make([]any, len(t.columns)), make([]any, len(t.columns))
		for i := range row {
			into[i] = &row[i]
		}
		ended := false
		err := c.Each(func(rows *sql.Rows) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := rows.Scan(into...); err != nil {
				return err
			}
			for i, v := range row {
				if b, ok := v.([]byte); ok && b == nil {
					row[i] = []byte{}
				}
			}
			if err := d.add(row); err != nil {
				return err
			}
			if d.rows%reportEvery == 0 {
				report()
			}
			if ended = !yield(row, nil); ended {
				return errEnded
			}
			return nil
		}, t.selection())
		if !ended && err != nil {
			yield(nil, err)
		}
	}
}

// reportEvery is the number of rows between two progress reports.
const reportEvery = 1 << 10

var errEnded = errors.New("ended")

// rowDigest is a SHA-256 over rows. It hashes the type, the length and the bytes of each value, so
// that different lists of rows have different inputs.
type rowDigest struct {
	hash hash.Hash
	rows int64
	text []byte
}

func newRowDigest() *rowDigest { return &rowDigest{hash: sha256.New()} }

func (d *rowDigest) add(row []any) error {
	d.text = append(d.text[:0], byte(len(row)))
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			d.text = append(d.text, 'n')
		case int64:
			d.text = binary.BigEndian.AppendUint64(append(d.text, 'i'), uint64(v))
		case string:
			d.text = append(binary.BigEndian.AppendUint64(append(d.text, 't'), uint64(len(v))), v...)
		case []byte:
			d.text = append(binary.BigEndian.AppendUint64(append(d.text, 'b'), uint64(len(v))), v...)
		default:
			return fmt.Errorf("a value of type %T", v)
		}
	}
	d.rows++
	_, err := d.hash.Write(d.text)
	return err
}

func (d *rowDigest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)) }
