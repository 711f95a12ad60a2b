package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"attestd/store/projection"
)

// Quota is what each of the two logs of a company may have. nil is the quota of the server, 0 none.
type Quota struct {
	Records, Bytes *int64
}

// quotaRow is a row of company_quota.
type quotaRow struct{ records, bytes sql.NullInt64 }

func (q quotaRow) projected() projection.Quota {
	p := projection.Quota{MaxRecords: projection.ServersQuota, MaxBytes: projection.ServersQuota}
	if q.records.Valid {
		p.MaxRecords = q.records.Int64
	}
	if q.bytes.Valid {
		p.MaxBytes = q.bytes.Int64
	}
	return p
}

func (q quotaRow) quota() Quota {
	var out Quota
	if q.records.Valid {
		out.Records = &q.records.Int64
	}
	if q.bytes.Valid {
		out.Bytes = &q.bytes.Int64
	}
	return out
}

// SetQuota changes the quota of the caller's company, for a reason that its control log says. It is
// in force on all servers before the next record of the company.
func (s Companies) SetQuota(ctx context.Context, by Caller, q Quota, reason string) error {
	err := s.db.recorded(ctx, by, s.db.change, func(w *conn) ([]controlEvent, error) {
		if _, err := w.exec(`INSERT INTO company_quota (company, max_records, max_bytes) VALUES (?, ?, ?) ON CONFLICT (company) DO UPDATE
			SET max_records = excluded.max_records, max_bytes = excluded.max_bytes`, by.Company.Chain, orNull(q.Records), orNull(q.Bytes)); err != nil {
			return nil, err
		}
		return []controlEvent{{CompanyQuota, subjectQuota, map[string]any{"maxRecords": q.Records, "maxBytes": q.Bytes, "reason": reason}}},
			s.relimit(w, by.Company)
	})
	if err != nil {
		return fmt.Errorf("set the quota of company %q: %w", by.Company.ID, err)
	}
	return nil
}

func orNull(n *int64) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *n, Valid: true}
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
	var q quotaRow
	err = rows.Scan(&u.Chain, &u.ID, &u.RegisteredAt, &at, &reason, &q.records, &q.bytes, &u.Records, &u.Bytes, &u.ControlRecords,
		&u.ControlBytes, &u.Agents)
	u.Quota = q.quota()
	if at.Valid {
		u.Suspension = Suspension{at.String, reason.String}
	}
	return u, err
}

// Usages yields all companies in the order of registration. It reads the heads of their logs, and
// no record.
func (s Companies) Usages(ctx context.Context) iter.Seq2[CompanyUsage, error] {
	return list(ctx, s.db, "companies", scanUsage, usageColumns+`company.id > ? AND company.id < ? ORDER BY company.id`,
		func(last CompanyUsage) []any { return []any{last.Chain, int64(Installation)} })
}

// Usage returns a company by its companyId, or ErrNotFound.
func (s Companies) Usage(ctx context.Context, id string) (u CompanyUsage, err error) {
	err = s.db.read(ctx, func(r *conn) error {
		u, err = row(r, scanUsage, usageColumns+`company_id = ? AND company.id < ?`, id, int64(Installation))
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
	err = s.db.read(ctx, func(r *conn) error {
		if err := r.one([]any{&u.Records, &u.Bytes}, countUsed); err != nil {
			return err
		}
		return r.one([]any{&u.Companies, &u.Suspended}, `SELECT (SELECT count(*) FROM company WHERE id < ?),
			(SELECT count(*) FROM company_suspension WHERE suspended_at IS NOT NULL)`, int64(Installation))
	})
	if err != nil {
		return Usage{}, errors.Join(errors.New("count what companies have"), err)
	}
	return u, nil
}
