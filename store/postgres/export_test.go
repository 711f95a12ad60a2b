package postgres

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
)

// Step is a step of a migration.
type Step struct {
	SQL        string
	Compatible int
}

// MigrateWith is Migrate with more steps after attestd's.
func MigrateWith(ctx context.Context, db *sql.DB, progress func(int), invented ...Step) error {
	all := steps()
	for _, s := range invented {
		all = append(all, step{s.SQL, s.Compatible})
	}
	return migrate(ctx, db, all, progress)
}

// MigrateTo is Migrate up to a version.
func MigrateTo(ctx context.Context, db *sql.DB, version int) error {
	return migrate(ctx, db, steps()[:version-firstVersion], func(int) {})
}

// AddedColumns returns the columns that the steps from a version on add to tables that were there
// before, as table.column.
func AddedColumns(from int) (added []string) {
	for _, s := range steps()[from-firstVersion:] {
		for _, c := range regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN (\w+)`).FindAllStringSubmatch(s.sql, -1) {
			added = append(added, c[1]+"."+c[2])
		}
	}
	return added
}

// Catalog returns the description of our tables in the form of catalog.txt.
func Catalog(ctx context.Context, db *sql.DB) (string, error) {
	var ours []object
	for line := range strings.Lines(schema) {
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "CREATE" && (words[1] == "TABLE" || words[1] == "FUNCTION") {
			ours = append(ours, object{kind: strings.ToLower(words[1]), name: words[2]})
		}
	}
	found, err := readCatalog(ctx, db, ours)
	var b strings.Builder
	for _, o := range found {
		b.WriteString(o.String() + ": " + o.definition + "\n")
	}
	return b.String(), err
}

// Granted are the tables that have grants.
func Granted() (tables []string) {
	for _, g := range grants() {
		tables = append(tables, g.table)
	}
	slices.Sort(tables)
	return tables
}

var (
	SchemaText  = schema
	CatalogText = wantedCatalog
	CheckEngine = checkEngine
	DialConfig  = config
)

func StepCount() int { return len(steps()) }
