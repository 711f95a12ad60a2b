package postgres

import (
	"context"
	"database/sql"
	_ "embed" // catalog.sql, catalog.txt
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:generate go test -run TestCatalogMatchesSchema -args -update

//go:embed catalog.sql
var catalogQuery string

// wantedCatalog is the result of catalog.sql on tables that schema.sql has created, with one object
// per line.
//
//go:embed catalog.txt
var wantedCatalog string

// object is a table, column, constraint, index, trigger, function or another object that the
// catalog has of our tables.
type object struct{ kind, name, definition string }

func (o object) String() string { return o.kind + " " + o.name }

// catalog parses lines of objects.
func catalog(text string) (found []object) {
	for line := range strings.Lines(text) {
		head, definition, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		kind, name, _ := strings.Cut(head, " ")
		found = append(found, object{kind, name, definition})
	}
	return found
}

// Check compares the tables, columns, constraints, indices, triggers and functions of a database
// with those that this program creates. It returns a sentence for each that is missing, changed or
// disabled, for each setting that disables the guards, and for each foreign object on attestd's
// tables. It ignores other objects. It also returns a sentence for each table with dangling
// references, which a temporarily disabled guard leaves behind. ErrNewer means a schema that this
// program can use but not check; the other errors are those of Identify.
func Check(ctx context.Context, db *sql.DB) (wrong []string, err error) {
	return check(ctx, db, true)
}

// CheckGuards is Check without the rows, and so of the same cost whatever a database holds.
func CheckGuards(ctx context.Context, db *sql.DB) (wrong []string, err error) {
	return check(ctx, db, false)
}

func check(ctx context.Context, db *sql.DB, rows bool) (wrong []string, err error) {
	d, err := Identify(ctx, db)
	if err != nil {
		return nil, err
	}
	if d.Version > Version {
		return nil, fmt.Errorf("%w: schema %d, this one can check %d", ErrNewer, d.Version, Version)
	}
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, refusal(err)
	}
	defer c.Close()
	want := catalog(wantedCatalog)
	have, err := readCatalog(ctx, c, want)
	if err != nil {
		return nil, refusal(err)
	}
	var stray []string
	if rows {
		if stray, err = strayRows(ctx, c, want); err != nil {
			return nil, refusal(err)
		}
	}
	silent, err := silencedGuards(ctx, c)
	if err != nil {
		return nil, refusal(err)
	}
	return slices.Concat(silent, differences(want, have), stray), nil
}

// readCatalog reads the existing objects of the tables and functions in want.
func readCatalog(ctx context.Context, q querier, want []object) (have []object, err error) {
	var tables, functions []string
	for _, o := range want {
		switch o.kind {
		case "table":
			tables = append(tables, o.name)
		case "function":
			name, _, _ := strings.Cut(o.name, "(")
			functions = append(functions, name)
		}
	}
	err = each(ctx, q, func(rows *sql.Rows) error {
		var o object
		err := rows.Scan(&o.kind, &o.name, &o.definition)
		o.definition = strings.Join(strings.Fields(o.definition), " ")
		have = append(have, o)
		return err
	}, catalogQuery, tables, functions)
	slices.SortFunc(have, func(a, b object) int { return strings.Compare(a.String(), b.String()) })
	return have, err
}

// differences describes what is missing from have, what differs, and what want does not have.
func differences(want, have []object) (found []string) {
	for _, w := range want {
		at := slices.IndexFunc(have, func(h object) bool { return h.String() == w.String() })
		switch {
		case at < 0:
			found = append(found, fmt.Sprintf("%v is missing", w))
		case have[at].definition == w.definition+" disabled":
			found = append(found, fmt.Sprintf("%v is disabled", w))
		case have[at].definition != w.definition:
			found = append(found, fmt.Sprintf("%v is not the one of this program: %s", w, have[at].definition))
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(w object) bool { return w.String() == h.String() }) {
			found = append(found, fmt.Sprintf("%v is not one of this program", h))
		}
	}
	return found
}

// strayRows counts, for each foreign key in want, the rows with a dangling reference.
func strayRows(ctx context.Context, q querier, want []object) (stray []string, err error) {
	reference := regexp.MustCompile(`^FOREIGN KEY \((\w+)\) REFERENCES (\w+)\((\w+)\)`)
	for _, o := range want {
		key := reference.FindStringSubmatch(o.definition)
		if o.kind != "constraint" || key == nil {
			continue
		}
		table, _, _ := strings.Cut(o.name, ".")
		column, parent, id := key[1], key[2], key[3]
		var n int
		if err := q.QueryRowContext(ctx, fmt.Sprintf("SELECT count(*) FROM %s AS t WHERE %s IS NOT NULL AND NOT EXISTS (SELECT FROM %s AS p WHERE p.%s = t.%s)",
			table, column, parent, id, column)).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			stray = append(stray, fmt.Sprintf("table %s refers to a %s that is not there (rows: %d)", table, parent, n))
		}
	}
	return stray, nil
}
