package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"

	"attestd/store/db"
	"attestd/store/projection"
)

// Rows whose content is in no control record are under an HMAC each, in their column mac, with the
// key that authenticates access tokens too. So an attacker who can write rows, but does not have
// that key, changes none undetected. An attacker who has an older copy of a row can put that back.

// macTable is a table whose rows have an HMAC.
type macTable struct {
	name    string
	title   string   // column that names a row in a Difference
	columns []string // all but mac; the first one identifies a row, and is the cursor of a list
}

var webhookTable = macTable{"webhook", "webhook_id", []string{
	"id", "company", "webhook_id", "url", "agents", "actions", "description", "created_at", "made_by", "public_key", "fingerprint", "secret",
	"former_secret", "former_until", "disabled_at", "disabled_reason", "next_record", "attempts", "retry_at", "next_control",
}}

// about is the subject of control records about the webhook with an ID.
func (t *macTable) about(id string) string { return "webhook:" + id }

// obeyed is how the rows of webhooks are compared with the control log.
func (t *macTable) obeyed() obeyedTable {
	return obeyedTable{
		name: t.name, title: t.title, order: t.columns[0], about: t.about,
		query: "SELECT " + t.all() + " FROM " + t.name + " WHERE company = ?1",
		scan: func(_ *base, _ *Company, rows *sql.Rows) (obeyedRow, error) {
			r, err := t.scan(rows)
			if err != nil {
				return obeyedRow{}, err
			}
			has := projection.Webhook{URLHash: hashOf([]byte(r.text("url"))), Agents: canonicalList(r.text("agents")), Actions: canonicalList(r.text("actions")),
				Fingerprint: r.text("fingerprint"), MadeBy: r.text("made_by")}
			if !r.isNull("disabled_at") {
				has.Disabled = r.text("disabled_reason")
			}
			return obeyedRow{name: r.text(t.title), at: []any{r.values[0]}, row: has}, nil
		},
	}
}

// macTables are all of them.
var macTables = []*macTable{&webhookTable, &approvalTable}

// all returns the columns of a row with its HMAC, for SELECT and RETURNING.
func (t *macTable) all() string { return strings.Join(t.columns, ", ") + ", mac" }

// macRow is a row as it was read.
type macRow struct {
	table  *macTable
	values []any // by column
	mac    []byte
}

func (t *macTable) scan(rows *sql.Rows) (macRow, error) {
	r := macRow{table: t, values: make([]any, len(t.columns))}
	into := make([]any, 0, len(t.columns)+1)
	for i := range r.values {
		into = append(into, &r.values[i])
	}
	return r, rows.Scan(append(into, &r.mac)...)
}

// column returns a value of the row.
func (r *macRow) column(name string) any {
	for i, column := range r.table.columns {
		if column == name {
			return r.values[i]
		}
	}
	panic("store: table " + r.table.name + " has no column " + name)
}

func (r *macRow) text(name string) string  { text, _ := r.column(name).(string); return text }
func (r *macRow) bytes(name string) []byte { b, _ := r.column(name).([]byte); return b }
func (r *macRow) number(name string) int64 { n, _ := r.column(name).(int64); return n }
func (r *macRow) isNull(name string) bool  { return r.column(name) == nil }
func (r *macRow) optional(name string) (n sql.NullInt64) {
	n.Int64, n.Valid = r.column(name).(int64)
	return n
}

// sum computes the HMAC of the row. The table, and the type and length of each value, are part of
// what it is over.
func (r *macRow) sum(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	writePart(mac, 't', []byte("row of "+r.table.name))
	for _, v := range r.values {
		switch v := v.(type) {
		case nil:
			writePart(mac, 'n', nil)
		case int64:
			writePart(mac, 'i', binary.BigEndian.AppendUint64(nil, uint64(v)))
		case string:
			writePart(mac, 't', []byte(v))
		case []byte:
			writePart(mac, 'b', v)
		default:
			writePart(mac, '?', fmt.Append(nil, v)) // none of our columns has another type
		}
	}
	return mac.Sum(nil)
}

func writePart(h hash.Hash, kind byte, text []byte) {
	h.Write(binary.BigEndian.AppendUint64([]byte{kind}, uint64(len(text))))
	h.Write(text)
}

// rowKey is what a process knows of the key of the HMACs.
type rowKey struct {
	key      []byte // nil if there is none yet
	isKnown  bool   // the process can read it, or there is none
	required bool   // no row may be without an HMAC
}

// rowKey reads the key. A process without the master key of a sealed database does not know it, and
// so cannot check rows.
func (s rowKeys) rowKey(c *db.Conn) (k rowKey, err error) {
	if k.required = s.required.Load(); !k.required {
		logged, _, err := loggedSettings(c, installation())
		if err != nil {
			return k, s.db.noted(theDatabase, err)
		}
		_, k.required = logged.Settings[projection.SettingRowKey]
		s.required.Store(k.required)
	}
	if !s.db.IsUnsealed() {
		return k, nil
	}
	k.isKnown = true
	if known := s.key.Load(); known != nil {
		k.key = *known
		return k, nil
	}
	// It is not cached here: it may be of a transaction that fails.
	if k.key, err = s.readTokenKey(c); errors.Is(err, db.ErrNotFound) {
		err = nil
	}
	return k, err
}

// wrong returns what is wrong with the HMAC of a row, to be read behind its name, or "".
func (k *rowKey) wrong(r *macRow) string {
	switch {
	case !k.isKnown, r.mac == nil && !k.required:
		return ""
	case r.mac == nil:
		return "has no HMAC: somebody else than the service has written it"
	case k.key == nil || subtle.ConstantTimeCompare(r.mac, r.sum(k.key)) != 1:
		return "is not what its HMAC says: somebody else than the service has written it"
	}
	return ""
}

// difference is wrong as a Difference, or nil.
func (k *rowKey) difference(r *macRow) *projection.Difference {
	what := k.wrong(r)
	if what == "" {
		return nil
	}
	return &projection.Difference{Table: r.table.name, Row: r.text(r.table.title), Index: -1, What: what}
}

// authentic returns a *TablesChangedError if a row of a company is not what its HMAC says, and
// remembers it.
func (s rowKeys) authentic(c *db.Conn, k *rowKey, r *macRow) error {
	d := k.difference(r)
	if d == nil {
		return nil
	}
	company := &Company{Chain: r.number("company")}
	if err := c.One([]any{&company.ID}, `SELECT company_id FROM company WHERE id = ?`, company.Chain); err != nil {
		return err
	}
	return s.db.noted(company, changedTables(company, d))
}

// change changes a row that was read and found authentic in the same transaction, and gives it its
// new HMAC.
func (s rowKeys) change(w *db.Conn, r *macRow, assignments string, args ...any) error {
	return s.changeIf(w, r, "TRUE", nil, assignments, args...)
}

// changeIf is change where a condition with its own arguments is true.
func (s rowKeys) changeIf(w *db.Conn, r *macRow, condition string, of []any, assignments string, args ...any) error {
	return s.sign(w, r.table, `UPDATE `+r.table.name+` SET `+assignments+` WHERE `+r.table.columns[0]+` = ? AND `+condition+
		` RETURNING `+r.table.all(), slices.Concat(args, []any{r.values[0]}, of)...)
}

// sign gives each row that a statement returns its HMAC.
func (s rowKeys) sign(w *db.Conn, t *macTable, statement string, args ...any) error {
	key, err := s.needTokenKey(w)
	if err != nil {
		return err
	}
	rows, err := db.All(w, t.scan, statement, args...)
	for i := 0; err == nil && i < len(rows); i++ {
		_, err = w.Exec(`UPDATE `+t.name+` SET mac = ? WHERE `+t.columns[0]+` = ?`, rows[i].sum(key), rows[i].values[0])
	}
	return err
}

// adoptRows gives an HMAC to the rows that have none, of a time before they had.
func (s rowKeys) adoptRows(w *db.Conn) error {
	for _, t := range macTables {
		if err := s.sign(w, t, `SELECT `+t.all()+` FROM `+t.name+` WHERE mac IS NULL`); err != nil {
			return err
		}
	}
	return nil
}
