package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"attestd/store/db"
	"attestd/store/projection"
)

var obeyedTables = []obeyedTable{
	signingKeys.obeyed(), apiKeys.obeyed(), clients.obeyed(), agents.obeyed(), passports.obeyed(), webhookTable.obeyed(), agentKeys.obeyed(), tokenKeys.obeyed(), enrolments.obeyed(),
	federations.obeyed(), attestPolicies.obeyed(), companyPolicies.obeyed(), suspensions.obeyed(), quotas.obeyed(),
	cedarPolicies.obeyed(), cedarSets.obeyed(), groupsOfAgents.obeyed(), decisionPolicies.obeyed(),
	people.obeyed(), passkeys.obeyed(), invitations.obeyed(), changePolicies.obeyed(),
}

// tableOf returns the table with a name, or nil.
func tableOf(name string) *obeyedTable {
	for i := range obeyedTables {
		if obeyedTables[i].name == name {
			return &obeyedTables[i]
		}
	}
	return nil
}

// tablePage is how many rows are read at once: no read lasts long.
const tablePage = 1024

// readTables compares every row of the company that the service obeys.
func (r *comparison) readTables(ctx context.Context) error {
	if err := r.tables.db.Read(ctx, func(c *db.Conn) error {
		has, err := companyRow(c, r.company)
		if err != nil {
			return err
		}
		r.add(r.rows.Company(has))
		return c.Each(func(rows *sql.Rows) error {
			var name, id, origin string
			err := rows.Scan(&name, &id, &origin)
			if err == nil && !strings.HasSuffix(origin, db.LogPath+id) {
				r.add(&projection.Difference{Table: "log", Row: name, Index: -1, What: fmt.Sprintf("has the ID %q, and the origin %q", id, origin)})
			}
			return err
		}, `SELECT name, log_id, origin FROM log WHERE company = ?`, r.company.Chain)
	}); err != nil {
		return err
	}
	for i := range obeyedTables {
		if err := r.readTable(ctx, &obeyedTables[i]); err != nil {
			return err
		}
	}
	if err := r.readMACs(ctx); err != nil {
		return err
	}
	if err := r.readApprovals(ctx); err != nil {
		return err
	}
	return r.readSettings(ctx)
}

func (r *comparison) readTable(ctx context.Context, t *obeyedTable) error {
	page := fmt.Sprintf(" ORDER BY %s LIMIT %d", t.order, tablePage)
	query, args := t.query+page, []any{r.company.Chain}
	for n := tablePage; n == tablePage; {
		n = 0
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		var last obeyedRow
		err := r.tables.db.Read(ctx, func(c *db.Conn) error {
			return c.Each(func(rows *sql.Rows) error {
				row, err := t.scan(r.tables.db, r.company, rows)
				if err != nil {
					return err
				}
				last, n = row, n+1
				r.add(r.rows.Row(t.name, row.name, row.row))
				if row.wrong != "" {
					r.add(&projection.Difference{Table: t.name, Row: row.name, Index: -1, What: row.wrong, Secret: true})
				}
				return nil
			}, query, args...)
		})
		if err == nil && n > 0 {
			err = r.pace.rest(ctx, began)
		}
		if err != nil {
			return err
		}
		args = append([]any{r.company.Chain}, last.at...)
		query = fmt.Sprintf("%s AND (%s) > (%s)%s", t.query, t.order, placeholders(2, len(last.at)), page)
	}
	return nil
}

// companyRow reads the row of a company.
func companyRow(c *db.Conn, company *Company) (has projection.Company, err error) {
	var metadata sql.NullString
	err = c.One([]any{&has.RegisteredAt, &metadata, &has.Actions, &has.Control}, `SELECT registered_at, metadata, a.origin, c.origin FROM company
		JOIN log a ON a.company = company.id AND a.name = 'actions' JOIN log c ON c.company = company.id AND c.name = 'control' WHERE company.id = ?`, company.Chain)
	has.MetadataHash = hashOf(rawOrNil(metadata))
	return has, err
}

// readSettings compares what was given to the last start, and what the database is, with what the
// log says of it.
func (r *comparison) readSettings(ctx context.Context) error {
	return r.tables.db.Read(ctx, func(c *db.Conn) error {
		var text string
		if err := c.One([]any{&text}, `SELECT coalesce((SELECT value FROM setting WHERE name = ?), '{}')`, trustSetting); err != nil {
			return err
		}
		given := map[string]string{}
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
		is, err := r.tables.keys.readIdentity(c)
		if err != nil {
			return err
		}
		if !r.tables.db.IsUnsealed() { // it cannot be decided
			is[projection.SettingRowKey] = r.state.Settings[projection.SettingRowKey]
		}
		r.add(r.rows.Settings(given))
		r.add(r.rows.Fixed(is))
		return nil
	})
}
