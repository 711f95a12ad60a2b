package projection

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"
	"time"
)

// Difference is a place where a table and the control log disagree.
type Difference struct {
	Table string
	Row   string // its name within the company; "" for the company itself
	Index int64  // of the control record that says otherwise; -1 where none does
	What  string // what is wrong, to be read behind the name of the row
	Has   any    // the row as it is, nil where it is missing
	// a secret in the row is of another one, which no record makes right
	Secret bool
}

func (d *Difference) Error() string {
	if d.Row == "" {
		return fmt.Sprintf("table %s %s", d.Table, d.What)
	}
	return fmt.Sprintf("table %s, row %q: %s", d.Table, d.Row, d.What)
}

// Comparison compares the rows of a company with its log. Each method compares one row and returns
// nil where the log says the same. Compared rows are removed, so that Missing knows what is left.
type Comparison struct {
	state  *State
	tables []table
}

// Compare begins a comparison, which uses the state up.
func (s *State) Compare() Comparison { return Comparison{s, s.tables()} }

// Row compares a row of a table by its name: a value of the type that this package has for the
// table.
func (c Comparison) Row(table, name string, has any) *Difference {
	switch has := has.(type) {
	case SigningKey:
		return c.signingKey(name, has)
	case Passport:
		return c.passport(name, has)
	}
	for _, t := range c.tables {
		if t.name == table {
			return t.rows.take(table, name, has)
		}
	}
	return unrecorded(table, name, has)
}

// Missing yields what the log has and no row was compared for, in the order of tables and names.
// newest is the time of the company's newest record. It uses the comparison up.
func (c Comparison) Missing(newest time.Time) iter.Seq[*Difference] {
	gone := PassportsGone(newest)
	return func(yield func(*Difference) bool) {
		maps.DeleteFunc(c.state.Passports, func(_ string, p Entry[Passport]) bool { return p.Row.ExpiresAt <= gone })
		for _, t := range c.tables {
			for name, index := range t.rows.left() {
				if !yield(&Difference{Table: t.name, Row: name, Index: index, What: fmt.Sprintf("is missing, and control record %d tells of it", index)}) {
					return
				}
			}
		}
	}
}

func unrecorded(table, name string, has any) *Difference {
	return &Difference{Table: table, Row: name, Index: -1, What: "no control record tells of it", Has: has}
}

// Unrecorded reports whether a difference is about a row that no record describes. If the company's
// log is not Complete, such a row is older than the log.
func (d *Difference) Unrecorded() bool { return d.Index < 0 && d.Has != nil }

func differs[R comparable](table, name string, has R, want Entry[R]) *Difference {
	if has == want.Row {
		return nil
	}
	var parts []string
	one, other := reflect.ValueOf(has), reflect.ValueOf(want.Row)
	for i := range one.NumField() {
		if a, b := one.Field(i).Interface(), other.Field(i).Interface(); a != b {
			column, _, _ := strings.Cut(one.Type().Field(i).Tag.Get("json"), ",")
			parts = append(parts, fmt.Sprintf("%s is %s, and control record %d says %s", column, shown(a), want.Index, shown(b)))
		}
	}
	return &Difference{Table: table, Row: name, Index: want.Index, What: strings.Join(parts, "; "), Has: has}
}

func shown(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case Text:
		if !v.Set {
			return "absent"
		}
		return fmt.Sprintf("%q", v.Value)
	}
	return fmt.Sprint(v)
}
