package projection

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Difference is a place where a table and the control log disagree.
type Difference struct {
	Table string
	Row   string // its name within the company; "" for the company itself
	Index int64  // of the control record that says otherwise; -1 where none does
	What  string // what is wrong, to be read behind the name of the row
	Has   any    // the row as it stands, nil where it is missing
	// a secret in the row is of another one, which no record makes right
	Secret bool
}

func (d *Difference) Error() string {
	if d.Row == "" {
		return fmt.Sprintf("table %s %s", d.Table, d.What)
	}
	return fmt.Sprintf("table %s, row %q: %s", d.Table, d.Row, d.What)
}

// Comparison holds the rows of a company against its log. Each method takes one row and returns nil
// where the log says the same. Rows that were taken are forgotten, so that Missing knows what is
// left.
type Comparison struct{ state *State }

// Compare begins a comparison, which uses the state up.
func (s *State) Compare() Comparison { return Comparison{s} }

// Company takes the row of the company.
func (c Comparison) Company(has Company) *Difference {
	if !c.state.Complete() {
		return unrecorded(TableCompany, "", has)
	}
	return differs(TableCompany, "", has, c.state.Company)
}

// Row takes a row of a table by its name: a value of the type that this package has for the table.
func (c Comparison) Row(table, name string, has any) *Difference {
	switch has := has.(type) {
	case SigningKey:
		return c.signingKey(name, has)
	case Passport:
		return c.passport(name, has)
	}
	for _, t := range c.state.tables() {
		if t.name == table {
			return t.rows.take(table, name, has)
		}
	}
	return unrecorded(table, name, has)
}

// signingKey takes a key by the fingerprint of its public part.
func (c Comparison) signingKey(fingerprint string, has SigningKey) *Difference {
	if !c.state.Complete() {
		delete(c.state.SigningKeys, fingerprint)
		return unrecorded(TableSigningKey, fingerprint, has)
	}
	compared := has
	if want := c.state.SigningKeys[fingerprint].Row.EndedAt; c.state.endedBy[fingerprint] && has.EndedAt != "" && has.EndedAt <= want {
		compared.EndedAt = want
	}
	d := c.state.SigningKeys.take(TableSigningKey, fingerprint, compared)
	if d != nil {
		d.Has = has
	}
	return d
}

// passport takes a passport.
func (c Comparison) passport(jti string, has Passport) *Difference {
	want, orUnrevoked, is := c.state.Passport(jti)
	if is && orUnrevoked && has.RevokedAt == "" {
		want.Row.RevokedAt, want.Row.Reason = "", Text{}
	}
	switch {
	case is:
		c.state.Passports[jti] = want
	case c.state.adopted && has.ExpiresAt <= c.state.adoptedAt:
		return nil // expired rows need no adoption
	}
	return c.state.Passports.take(TablePassport, jti, has)
}

// Settings takes all settings that bear on trust. A log that tells of none is of a company that has
// had no start since.
func (c Comparison) Settings(has map[string]string) *Difference {
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if want, is := c.state.Settings[name]; is && want != has[name] {
			return differingSetting(name, fmt.Sprintf("is %q, and the log says %q", has[name], want))
		}
	}
	return nil
}

func differingSetting(name, what string) *Difference {
	return &Difference{Table: TableSetting, Row: name, Index: -1, What: what}
}

// Fixed takes what the database itself says of the settings that never change, by their names; a
// name that is not there is of a row that is missing, or that cannot be read.
func (c Comparison) Fixed(has map[string]string) *Difference { return c.state.Fixed(has) }

// Fixed is Comparison.Fixed, which does not use the state up.
func (s *State) Fixed(has map[string]string) *Difference {
	for _, name := range FixedSettings {
		want, is := s.Settings[name]
		value, there := has[name]
		switch {
		case !is || value == want:
		case !there:
			return differingSetting(name, fmt.Sprintf("is missing, and the log says %q", want))
		default:
			return differingSetting(name, fmt.Sprintf("is %q, and the log says %q", value, want))
		}
	}
	return nil
}

// Missing yields what the log tells of and no row was taken for, in the order of tables and names.
// newest is the time of the company's newest record. It uses the comparison up.
func (c Comparison) Missing(newest time.Time) iter.Seq[*Difference] {
	gone := PassportsGone(newest)
	return func(yield func(*Difference) bool) {
		maps.DeleteFunc(c.state.Passports, func(_ string, p Entry[Passport]) bool { return p.Row.ExpiresAt <= gone })
		for _, t := range c.state.tables() {
			for name, index := range t.rows.left() {
				if !yield(&Difference{Table: t.name, Row: name, Index: index, What: fmt.Sprintf("is missing, and control record %d tells of it", index)}) {
					return
				}
			}
		}
	}
}

// PassportsGone returns the Unix time of which it is said that a passport which expired by then may
// be gone from its table: a day before the newest record of its company. So whether a row may be
// missing follows from the logs alone, whatever a clock says.
func PassportsGone(newest time.Time) int64 { return newest.Add(-24 * time.Hour).Unix() }

func unrecorded(table, name string, has any) *Difference {
	return &Difference{Table: table, Row: name, Index: -1, What: "no control record tells of it", Has: has}
}

// Unrecorded says whether a difference is about a row that no record tells of. Of a company whose
// log is not Complete, such a row is of before the log.
func (d *Difference) Unrecorded() bool { return d.Index < 0 && d.Has != nil }

func differs[R comparable](table, name string, has R, want Entry[R]) *Difference {
	if has == want.Row {
		return nil
	}
	var parts []string
	one, other := reflect.ValueOf(has), reflect.ValueOf(want.Row)
	for i := range one.NumField() {
		if a, b := one.Field(i).Interface(), other.Field(i).Interface(); a != b {
			column := one.Type().Field(i).Tag.Get("json")
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
