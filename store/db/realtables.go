package db

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

var createdTable = regexp.MustCompile(`CREATE TABLE (\w+)`)

// allTables are those that a file of any schema may have.
var allTables = sync.OnceValue(func() []string {
	list := slices.Clone(tables)
	for _, m := range migrations {
		for _, found := range createdTable.FindAllStringSubmatch(m.sql, -1) {
			if !slices.Contains(list, found[1]) {
				list = append(list, found[1])
			}
		}
	}
	return list
})

// checkRealTables returns ErrCorrupt if a table of this program is a view, a virtual table, or has
// generated columns. A read of one would compute what the file says, and may have no end. It reads
// the schema alone; Check compares it whole.
func (c *Conn) checkRealTables() error {
	names := "'" + strings.Join(allTables(), "','") + "'"
	for _, query := range []string{
		`SELECT name FROM sqlite_schema WHERE lower(name) IN (` + names + `) AND type IN ('view', 'table') AND (type = 'view' OR coalesce(rootpage, 0) = 0)`,
		`SELECT t.name FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table' AND lower(t.name) IN (` + names + `) AND c.hidden <> 0`,
	} {
		err := c.Each(func(rows *sql.Rows) error {
			var name string
			if err := rows.Scan(&name); err != nil {
				return err
			}
			return fmt.Errorf("%w: table %.100q is not the one of this program", ErrCorrupt, name)
		}, query+" LIMIT 1")
		if err != nil {
			return err
		}
	}
	return nil
}
