package store

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/store/db"
)

// right describes one kind of right: the table of its rows, their columns, and how control records
// name a row. Everything that scans, inserts or records such a row follows from it.
//
// What a row must hold according to the control log is package projection's to say. It says so by
// itself: a description that both shared would prove nothing.
type right[R any, P comparable] struct {
	table   string // as package projection names it
	subject string // of control records about a row, before its name
	title   string // column that names a row within its company; "" where a company has one row
	order   string // columns in whose order the rows of a company are read
	columns func(*R) []column
	// row is what package projection compares.
	row func(*R) P
	// name is the name of a row; nil for what is in the column title.
	name func(*R) string
	// wrong is what a row shows to be wrong by itself, "" for nothing; nil where rows show nothing.
	wrong func(b *base, c *Company, r *R) string
}

// column is a column of one row.
type column struct {
	name      string
	into      any // where Scan puts it
	value     any // what INSERT writes
	generated bool
	member    string // of the control record of the row's creation; "" for none
	said      any    // its value there
}

// as makes the column a member of the control record of the row's creation.
func (c column) as(member string) column {
	c.member = member
	return c
}

// ifAny leaves the member out where the column is NULL or "".
func (c column) ifAny() column {
	if c.value == nil || c.value == "" {
		c.member = ""
	}
	return c
}

// asJSON is as for text that is JSON.
func (c column) asJSON(member string) column {
	if text, is := c.value.(string); is {
		c.said = json.RawMessage(text)
	}
	return c.as(member)
}

// asHash is as for what may be long or private: the record has its hash.
func (c column) asHash(member string) column {
	c.said = nil
	if text, is := c.value.(string); is {
		c.said = hashOrNil([]byte(text))
	}
	return c.as(member)
}

// rowID is the column that the database numbers.
func rowID(id *int64) column { return column{name: "id", into: id, value: *id, generated: true} }

// plain is a column that is never NULL, as its type is stored.
func plain[T int | int64 | string | []byte | Role](name string, field *T) column {
	return column{name: name, into: field, value: *field, said: *field}
}

// optional is a column with NULL for the zero value of text or bytes.
func optional[T string | []byte](name string, field *T) column {
	c := column{name: name, into: zeroForNull[T]{field}}
	if len(*field) > 0 {
		c.value, c.said = *field, *field
	}
	return c
}

// nullable is a column with NULL for nil.
func nullable[T int64 | string](name string, field **T) column {
	c := column{name: name, into: field, said: *field}
	if *field != nil {
		c.value = **field
	}
	return c
}

// raw is JSON as text, with NULL for nil.
func raw(name string, field *json.RawMessage) column {
	c := column{name: name, into: rawText{field}}
	if *field != nil {
		c.value, c.said = string(*field), *field
	}
	return c
}

// end is a time in Unix milliseconds, with NULL for the zero time, which is never.
func end(name string, field *time.Time) column {
	c := column{name: name, into: unixMilli{field}, said: timeOrNil(*field)}
	if !field.IsZero() {
		c.value = field.UnixMilli()
	}
	return c
}

type zeroForNull[T any] struct{ field *T }

func (z zeroForNull[T]) Scan(v any) error {
	var n sql.Null[T]
	err := n.Scan(v)
	*z.field = n.V
	return err
}

type rawText struct{ field *json.RawMessage }

func (t rawText) Scan(v any) error {
	var text sql.NullString
	err := text.Scan(v)
	*t.field = rawOrNil(text)
	return err
}

type unixMilli struct{ field *time.Time }

func (m unixMilli) Scan(v any) error {
	var n sql.NullInt64
	err := n.Scan(v)
	*m.field = expiry(n)
	return err
}

// list is the columns of a table or of its alias, for SELECT.
func (k *right[R, P]) list(alias string) string {
	var names []string
	for _, c := range k.columns(new(R)) {
		names = append(names, alias+"."+c.name)
	}
	return strings.Join(names, ", ")
}

// scan scans a row of list.
func (k *right[R, P]) scan(rows *sql.Rows) (R, error) { return k.scanAnd(rows) }

// scanAnd is scan for a statement that selects more behind the columns.
func (k *right[R, P]) scanAnd(rows *sql.Rows, more ...any) (r R, err error) {
	columns := k.columns(&r)
	into := make([]any, 0, len(columns)+len(more))
	for _, c := range columns {
		into = append(into, c.into)
	}
	if err := rows.Scan(append(into, more...)...); err != nil {
		return *new(R), fmt.Errorf("table %s: %w", k.table, err)
	}
	return r, nil
}

// insert writes a row. further is what follows in the statement, "" for nothing.
func (k *right[R, P]) insert(w *db.Conn, r *R, further string) (rows int64, err error) {
	names, values := k.inserted(r)
	return w.Exec(`INSERT INTO `+k.table+` (`+strings.Join(names, ", ")+`) VALUES (`+placeholders(1, len(names))+`) `+further, values...)
}

// insertWhere is insert where a condition is true. Its placeholders ?1, ?2 … are those of the
// columns.
func (k *right[R, P]) insertWhere(w *db.Conn, r *R, condition string) (rows int64, err error) {
	names, values := k.inserted(r)
	return w.Exec(`INSERT INTO `+k.table+` (`+strings.Join(names, ", ")+`) SELECT `+placeholders(1, len(names))+` WHERE `+condition, values...)
}

// inserted are the columns that INSERT writes.
func (k *right[R, P]) inserted(r *R) (names []string, values []any) {
	for _, c := range k.columns(r) {
		if !c.generated {
			names, values = append(names, c.name), append(values, c.value)
		}
	}
	return names, values
}

// placeholders are n placeholders, numbered from first on.
func placeholders(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "?" + strconv.Itoa(first+i)
	}
	return strings.Join(list, ", ")
}

// created is the change that a row was created, with further members of its control record.
func (k *right[R, P]) created(action ControlAction, r *R, further map[string]any) controlEvent {
	columns, details := k.columns(r), map[string]any{}
	for _, c := range columns {
		if c.member != "" {
			details[c.member] = c.said
		}
	}
	for member, value := range further {
		details[member] = value
	}
	return controlEvent{action, k.about(k.nameOf(r, columns)), details}
}

// about is the subject of control records about the row with a name.
func (k *right[R, P]) about(name string) string { return k.subject + name }

// nameOf is the name of a row with these columns.
func (k *right[R, P]) nameOf(r *R, columns []column) string {
	if k.name != nil {
		return k.name(r)
	}
	name, _ := valueOf(columns, k.title).(string) // "" without a title
	return name
}

func valueOf(columns []column, name string) any {
	for _, c := range columns {
		if c.name == name {
			return c.value
		}
	}
	return nil
}

// latest is the SQL for the ID of the newest control record about a row of the table, or of its
// alias.
func (k *right[R, P]) latest(alias string) string {
	return latestOf(alias+".company", k.subjectSQL(alias))
}

// subjectSQL is the SQL for the subject of control records about a row.
func (k *right[R, P]) subjectSQL(alias string) string {
	return "'" + k.subject + "' || " + alias + "." + k.title
}

// withLatest selects rows of the table, each with the ID of the newest control record about it. A
// condition must follow.
func (k *right[R, P]) withLatest() string {
	return "SELECT " + k.list(k.table) + ", " + k.latest(k.table) + " AS latest FROM " + k.table + " WHERE "
}

// known is a row with the ID of the newest control record about it.
type known[R any] struct {
	row    R
	latest sql.NullInt64
}

func (k *right[R, P]) scanKnown(rows *sql.Rows) (found known[R], err error) {
	found.row, err = k.scanAnd(rows, &found.latest)
	return found, err
}

// known reads the rows of withLatest that meet a condition.
func (k *right[R, P]) known(c *db.Conn, condition string, args ...any) ([]known[R], error) {
	return db.All(c, k.scanKnown, k.withLatest()+condition, args...)
}

// knownOne is known for one row; ErrNotFound.
func (k *right[R, P]) knownOne(c *db.Conn, condition string, args ...any) (known[R], error) {
	return db.Row(c, k.scanKnown, k.withLatest()+condition, args...)
}

// obeyed is how the rows are compared with the control log.
func (k *right[R, P]) obeyed() obeyedTable {
	order := strings.Split(k.order, ", ")
	return obeyedTable{
		name: k.table, title: k.title, order: k.order, about: k.about,
		query: "SELECT " + k.list(k.table) + " FROM " + k.table + " WHERE company = ?1",
		scan: func(b *base, c *Company, rows *sql.Rows) (o obeyedRow, err error) {
			r, err := k.scan(rows)
			if err != nil {
				return o, err
			}
			columns := k.columns(&r)
			for _, name := range order {
				o.at = append(o.at, valueOf(columns, name))
			}
			if o.name, o.row = k.nameOf(&r, columns), k.row(&r); k.wrong != nil {
				o.wrong = k.wrong(b, c, &r)
			}
			return o, nil
		},
	}
}

// formatEnd is when something ends as control records have it, "" for never.
func formatEnd(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return chain.FormatTime(t)
}

// timeOrNil is formatEnd as a member of a control record: null for never.
func timeOrNil(t time.Time) any { return textOrNil(formatEnd(t)) }

// textOrNull encodes optional JSON for a column; rawOrNil decodes it.
func textOrNull(j json.RawMessage) sql.NullString {
	return sql.NullString{String: string(j), Valid: j != nil}
}

func rawOrNil(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// obeyedTable is a table whose rows the service obeys.
type obeyedTable struct {
	name  string // as package projection names it
	query string // selects the rows of company ?1
	title string // column that identifies a row within its company; "" where a company has one
	order string // columns by which rows are ordered and paged
	scan  func(b *base, c *Company, rows *sql.Rows) (obeyedRow, error)
	// about is the subject of control records about the row with a name.
	about func(name string) string
}

// obeyedRow is one row.
type obeyedRow struct {
	name  string // in a Difference
	at    []any  // its place in the order
	row   any    // a type of package projection
	wrong string // error that the row itself shows; "" for none
}

// canonicalList returns a JSON array of strings in canonical form, as in control records.
func canonicalList(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	canonical, err := jcs.Append(nil, []byte(text), maxControlDepth)
	if err != nil {
		return text
	}
	return string(canonical)
}
