package store

import (
	"database/sql"
	"errors"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// check compares the row of a webhook with all control records about it, which are few.
func (s Webhooks) check(r *db.Conn, company *Company, id string) error {
	var wrong error
	for range 2 { // a change between the two statements explains one difference
		if wrong = s.compare(r, company, id); !errors.Is(wrong, ErrTablesChanged) {
			break
		}
	}
	return s.db.noted(company, wrong)
}

func (s Webhooks) compare(r *db.Conn, company *Company, id string) error {
	table := tableOf(projection.TableWebhook)
	has, err := db.Row(r, func(rows *sql.Rows) (obeyedRow, error) {
		return table.scan(s.db, company, rows)
	}, table.query+" AND "+table.title+" = ?2", company.Chain, id)
	if err != nil {
		return err
	}
	state := projection.New(company.ID)
	if company.complete {
		state.MarkComplete()
	}
	err = r.Each(func(rows *sql.Rows) error {
		var record chain.Record
		var number int64
		if err := rows.Scan(&number, &record.Timestamp, &record.Payload); err != nil {
			return err
		}
		return state.Apply(number&db.IndexMask, record.Timestamp, record.Payload)
	}, `SELECT id, timestamp, payload FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?1
		AND id BETWEEN ?2 AND ?3 ORDER BY id`, webhookTable.about(id), db.RecordID(company.Control.Chain, 0), db.RecordID(company.Control.Chain, db.IndexMask))
	var d *projection.Difference
	if unread := (*projection.RecordError)(nil); errors.As(err, &unread) {
		d, err = &projection.Difference{Table: "record", Row: "control", Index: unread.Index, What: unread.Error()}, nil
	} else if err == nil {
		d = state.Compare().Row(table.name, has.name, has.row)
	}
	if err != nil || d == nil || d.Unrecorded() && !company.complete {
		return err
	}
	return changedTables(company, d)
}
