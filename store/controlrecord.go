package store

import (
	"database/sql"
	"strings"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// latestOf returns the SQL for the ID of the newest control record about a subject of a company,
// both given as SQL expressions. The statement that reads a row also reads this ID, so that both
// are of the same snapshot; row and record are written in one transaction. The content of the
// record can be read later, because records never change.
func latestOf(company, subject string) string {
	return aboutSubject(company, subject, "", "DESC")
}

// firstDisabling returns the SQL for the ID of the first record after another one that disables an
// agent.
func firstDisabling(company, agent, after string) string {
	return aboutSubject(company, "'agent:' || "+agent, " AND id > "+after+
		" AND json_extract(payload, '$.actionType') = 'agent.disabled'", "ASC")
}

func aboutSubject(company, subject, further, order string) string {
	return strings.NewReplacer("{company}", company, "{subject}", subject, "{further}", further, "{order}", order).Replace(
		`(SELECT id FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = {subject}
			AND id >= (-{company}) * 1099511627776 AND id <= (-{company}) * 1099511627776 + 1099511627775{further} ORDER BY id {order} LIMIT 1)`)
}

// controlRecord reads a control record by ID, or returns nil for none, and checks its hash. An
// attacker who alters a row and its record leaves a wrong hash, or a chain that does not verify.
func controlRecord(c *db.Conn, company *Company, id sql.NullInt64) (*projection.Latest, error) {
	if !id.Valid {
		return nil, nil
	}
	r := chain.Record{Index: id.Int64 & db.IndexMask}
	var hash []byte
	var payload string
	if err := c.One([]any{&hash, &r.Timestamp, &payload}, `SELECT hash, timestamp, payload FROM record WHERE id = ?`,
		id.Int64); err != nil {
		return nil, err
	}
	if computed := r.ComputeHash([]byte(payload)); string(computed[:]) != string(hash) {
		return nil, changedTables(company, &projection.Difference{Table: "record", Row: "control", Index: r.Index,
			What: "its hash is not that of the record"})
	}
	l, err := projection.Read(company.ID, r.Index, r.Timestamp, []byte(payload))
	if err != nil {
		return nil, changedTables(company, &projection.Difference{Table: "record", Row: "control", Index: r.Index,
			What: err.Error()})
	}
	return l, nil
}
