package store

import (
	"database/sql"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/store/projection"
)

// A row is held against the newest control record about it in the statement that reads the row: one
// statement sees one moment, and row and record are written in one transaction. latestOf is the SQL
// for the ID of that record, of a company and a subject that are expressions themselves. What the
// record says is read afterwards, for records never change.
func latestOf(company, subject string) string {
	return aboutSubject(company, subject, "", "DESC")
}

// firstDisabling is the SQL for the ID of the first record behind another one that disables an
// agent.
func firstDisabling(company, agent, after string) string {
	return aboutSubject(company, "'agent:' || "+agent, " AND id > "+after+" AND json_extract(payload, '$.actionType') = 'agent.disabled'", "ASC")
}

func aboutSubject(company, subject, further, order string) string {
	return strings.NewReplacer("{company}", company, "{subject}", subject, "{further}", further, "{order}", order).Replace(
		`(SELECT id FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = {subject}
			AND id >= (-{company}) * 1099511627776 AND id <= (-{company}) * 1099511627776 + 1099511627775{further} ORDER BY id {order} LIMIT 1)`)
}

// controlRecord reads the control record with an ID, nil for none, and checks its hash: whoever
// changes a row and the record about it leaves that wrong, or a chain that does not verify.
func (c *conn) controlRecord(company *Company, id sql.NullInt64) (*projection.Latest, error) {
	if !id.Valid {
		return nil, nil
	}
	r := chain.Record{Index: id.Int64 & indexMask}
	var hash []byte
	var payload string
	if err := c.one([]any{&hash, &r.Timestamp, &payload}, `SELECT hash, timestamp, payload FROM record WHERE id = ?`, id.Int64); err != nil {
		return nil, err
	}
	if computed := r.ComputeHash([]byte(payload)); string(computed[:]) != string(hash) {
		return nil, changedTables(company, &projection.Difference{Table: "record", Row: "control", Index: r.Index, What: "its hash is not that of the record"})
	}
	l, err := projection.Read(company.ID, r.Index, r.Timestamp, []byte(payload))
	if err != nil {
		return nil, changedTables(company, &projection.Difference{Table: "record", Row: "control", Index: r.Index, What: err.Error()})
	}
	return l, nil
}

func changedTables(company *Company, d *projection.Difference) error {
	return &TablesChangedError{Company: company.ID, Difference: *d}
}

// checked makes an error of a difference, nil for none. A row that no record tells of is obeyed in
// a company whose log does not tell of all.
func (s Tables) checked(company *Company, d *projection.Difference) error {
	if d == nil || d.Unrecorded() && !company.complete {
		return nil
	}
	err := changedTables(company, d)
	s.db.changed.add(company.Chain, err)
	return fmt.Errorf("%w", err)
}
