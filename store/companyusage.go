package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// Quota is what each of the two logs of a company may have. nil is the quota of the server, 0 none.
type Quota struct {
	Records, Bytes *int64
}

// storedQuota is a row of company_quota.
type storedQuota struct {
	company int64
	Quota
}

var quotas = right[storedQuota, projection.Quota]{
	table: projection.TableQuota, subject: "quota", order: "company",
	columns: func(q *storedQuota) []column {
		return []column{
			plain("company", &q.company),
			nullable("max_records", &q.Records).as("maxRecords"),
			nullable("max_bytes", &q.Bytes).as("maxBytes"),
		}
	},
	row: func(q *storedQuota) projection.Quota {
		p := projection.Quota{MaxRecords: projection.ServersQuota, MaxBytes: projection.ServersQuota}
		if q.Records != nil {
			p.MaxRecords = *q.Records
		}
		if q.Bytes != nil {
			p.MaxBytes = *q.Bytes
		}
		return p
	},
}

// SetQuota changes the quota of the caller's company, for a reason that its control log says. It is
// in force on all servers before the next record of the company.
func (s Companies) SetQuota(ctx context.Context, by Caller, q Quota, reason string) error {
	err := s.db.recorded(ctx, by, s.db.Change, func(w *db.Conn) ([]controlEvent, error) {
		stored := storedQuota{by.Company.Chain, q}
		if _, err := quotas.insert(w, &stored, `ON CONFLICT (company) DO UPDATE SET max_records = excluded.max_records, max_bytes = excluded.max_bytes`); err != nil {
			return nil, err
		}
		return []controlEvent{quotas.created(CompanyQuota, &stored, map[string]any{"reason": reason})}, s.relimit(w, by.Company)
	})
	if err != nil {
		return fmt.Errorf("set the quota of company %q: %w", by.Company.ID, err)
	}
	return nil
}

// CompanyUsage is what a company has, and what it may have.
type CompanyUsage struct {
	ID             string
	RegisteredAt   string
	Suspension     Suspension
	Quota          Quota
	Records, Bytes int64 // of the actions
	ControlRecords int64
	ControlBytes   int64
	Agents         int64
	Chain          int64 // of the actions
}

const usageColumns = `SELECT company.id, company_id, registered_at, suspended_at, s.reason, max_records, max_bytes, a.length, a.bytes, c.length, c.bytes, coalesce(u.agents, 0)
	FROM company JOIN head a ON a.chain = company.id JOIN head c ON c.chain = -company.id
	LEFT JOIN company_suspension s ON s.company = company.id LEFT JOIN company_quota q ON q.company = company.id
	LEFT JOIN company_usage u ON u.company = company.id WHERE `

func scanUsage(rows *sql.Rows) (u CompanyUsage, err error) {
	var at, reason sql.NullString
	err = rows.Scan(&u.Chain, &u.ID, &u.RegisteredAt, &at, &reason, &u.Quota.Records, &u.Quota.Bytes, &u.Records, &u.Bytes, &u.ControlRecords,
		&u.ControlBytes, &u.Agents)
	if at.Valid {
		u.Suspension = Suspension{at.String, reason.String}
	}
	return u, err
}

// Usages yields all companies in the order of registration. It reads the heads of their logs, and
// no record.
func (s Companies) Usages(ctx context.Context) iter.Seq2[CompanyUsage, error] {
	return db.List(ctx, s.db.DB, "companies", scanUsage, usageColumns+`company.id > ? AND company.id < ? ORDER BY company.id`,
		func(last CompanyUsage) []any { return []any{last.Chain, int64(db.Installation)} })
}

// Usage returns a company by its companyId, or ErrNotFound.
func (s Companies) Usage(ctx context.Context, id string) (u CompanyUsage, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		u, err = db.Row(r, scanUsage, usageColumns+`company_id = ? AND company.id < ?`, id, int64(db.Installation))
		return err
	})
	if err != nil {
		return CompanyUsage{}, fmt.Errorf("company %q: %w", id, err)
	}
	return u, nil
}

// Usage counts what all companies have.
type Usage struct {
	Companies, Suspended int64
	Records, Bytes       int64
}

// Total returns what all companies have. It reads the heads of their logs, and no record.
func (s Companies) Total(ctx context.Context) (u Usage, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		if err := r.One([]any{&u.Records, &u.Bytes}, ledger.CountUsed); err != nil {
			return err
		}
		return r.One([]any{&u.Companies, &u.Suspended}, `SELECT (SELECT count(*) FROM company WHERE id < ?),
			(SELECT count(*) FROM company_suspension WHERE suspended_at IS NOT NULL)`, int64(db.Installation))
	})
	if err != nil {
		return Usage{}, errors.Join(errors.New("count what companies have"), err)
	}
	return u, nil
}
