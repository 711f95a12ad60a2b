package projection

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
)

// Rows are those of one table, by their names.
type Rows[R comparable] map[string]Entry[R]

// rows is Rows of any type.
type rows interface {
	set(index int64, d *details, ofCompany bool) error
	take(table, name string, has any) *Difference
	left() iter.Seq2[string, int64]
}

// set enters a row as a record holds it whole: null for one that is gone.
func (rows Rows[R]) set(index int64, d *details, ofCompany bool) error {
	if string(d.Row) == "null" {
		delete(rows, d.Name)
		return nil
	}
	var row R
	err := json.Unmarshal(d.Row, &row)
	if err == nil && d.Name == "" && !ofCompany {
		err = errNoRow
	}
	if err == nil {
		rows[d.Name] = Entry[R]{row, index}
	}
	return err
}

// take compares a row with what the log says of it, and removes it from the comparison.
func (rows Rows[R]) take(table, name string, has any) *Difference {
	want, is := rows[name]
	delete(rows, name)
	row, isRow := has.(R)
	if !is || !isRow {
		return unrecorded(table, name, has)
	}
	return differs(table, name, row, want)
}

// left are the names of the rows that were not compared, with the indexes of the newest records
// about them.
func (rows Rows[R]) left() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			if !yield(name, rows[name].Index) {
				return
			}
		}
	}
}

// Text is a column that may be absent.
type Text struct {
	Value string `json:"value"`
	Set   bool   `json:"set"`
}

// Entry is a row with the newest control record about it.
type Entry[R comparable] struct {
	Row   R
	Index int64 // of the record
}

// Tables that no record of the control log is about, as differences name them. The names of the
// others are declared with their rows.
const (
	// these follow from the records of the actions
	TableName    = "idempotency_key"
	TableSession = "agent_session"
	// access tokens, which have an HMAC in place of a record
	TableToken          = "oauth_token"
	TableFederatedToken = "federated_token"
)

// set enters a row as a record holds it whole.
func (s *State) set(index int64, d *details) error {
	switch d.Table {
	case TableCompany:
		return json.Unmarshal(d.Row, &s.Company.Row)
	case TableSigningKey:
		return s.setKey(index, d)
	case TableName:
		s.Names[d.Name] = true
		return nil
	case TableSession, TableApproval: // follows from the actions, and is compared as it is read
		return nil
	}
	for _, t := range s.tables() {
		if t.name == d.Table {
			return t.rows.set(index, d, t.ofCompany)
		}
	}
	return fmt.Errorf("is about a table %q, which is unknown", d.Table)
}

var errNoRow = errors.New("names no row")

// put enters a new row.
func put[R comparable](rows Rows[R], name string, index int64, read func() (R, error)) error {
	row, err := read()
	if err == nil && name == "" {
		err = errNoRow
	}
	if err == nil {
		rows[name] = Entry[R]{row, index}
	}
	return err
}

// alter changes a row that is there. If a company is older than its log, the row may be one that no
// record describes.
func alter[R comparable](s *State, rows Rows[R], name string, index int64, change func(*R)) error {
	e, is := rows[name]
	if !is {
		if !s.Complete() {
			return nil
		}
		return fmt.Errorf("changes %q, which the log does not know", name)
	}
	change(&e.Row)
	e.Index = index
	rows[name] = e
	return nil
}
