package store

import (
	"database/sql"
	"errors"
	"time"

	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// The log's writer obeys a suspension and a quota as the control log says them, which it compares
// with the rows when it reads the head of a log. What it has compared it remembers for a moment.

// comparedLimits is the result of a comparison: what the rows say, and what is obeyed.
type comparedLimits struct{ rows, obeyed ledger.Limits }

// obeyedLimits returns what the control log says of the limits of a company, whose rows say has. A
// difference is remembered.
func (s Tables) obeyedLimits(c *db.Conn, company int64, has ledger.Limits) (ledger.Limits, error) {
	known, err := db.Lookup(s.limits, company, time.Now(), func() (comparedLimits, error) { return s.compareLimits(c, company, has) })
	if err == nil && known.rows != has { // another transaction has changed them
		known, err = s.compareLimits(c, company, has)
	}
	return known.obeyed, err
}

// compareLimits reads the rows once more, in the statement that finds the newest control records
// about them.
func (s Tables) compareLimits(c *db.Conn, company int64, has ledger.Limits) (comparedLimits, error) {
	of := &Company{Chain: company}
	var at, reason sql.NullString
	var quota Quota
	var suspended, quoted, about sql.NullInt64
	err := c.One([]any{&of.ID, &at, &reason, &quota.Records, &quota.Bytes, &suspended, &quoted, &about},
		`SELECT company_id, suspended_at, s.reason, max_records, max_bytes, `+latestOf("company.id", "'"+suspensions.subject+"'")+`, `+
			latestOf("company.id", "'"+quotas.subject+"'")+`, `+latestOf("company.id", "'company:' || company_id")+`
		FROM company LEFT JOIN company_suspension s ON s.company = company.id LEFT JOIN company_quota q ON q.company = company.id WHERE company.id = ?`, company)
	if errors.Is(err, db.ErrNotFound) {
		return comparedLimits{has, has}, nil // a company that is gone, which verification reports
	}
	if err != nil {
		return comparedLimits{}, err
	}
	of.Control.Chain = db.Control.ChainID(company)
	var latest [3]*projection.Latest
	for i, id := range []sql.NullInt64{suspended, quoted, about} {
		if latest[i], err = controlRecord(c, of, id); err != nil {
			return comparedLimits{}, s.db.noted(of, err)
		}
	}
	of.complete = latest[2].Tells()
	rows := ledger.Limits{Suspended: at.Valid, Records: orNull(quota.Records), Bytes: orNull(quota.Bytes)}
	obeyed := rows
	is := suspensions.row(&storedSuspension{Suspension: Suspension{at.String, reason.String}})
	if s.db.checked(of, latest[0].Suspension(is)) != nil {
		obeyed.Suspended = latest[0].Suspends()
	}
	if s.db.checked(of, latest[1].Quota(quotas.row(&storedQuota{Quota: quota}))) != nil {
		obeyed.Records, obeyed.Bytes = serversOr(latest[1].Quotas())
	}
	return comparedLimits{rows, obeyed}, nil
}

func serversOr(q projection.Quota) (records, bytes sql.NullInt64) {
	of := func(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != projection.ServersQuota} }
	return of(q.MaxRecords), of(q.MaxBytes)
}

func orNull(n *int64) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *n, Valid: true}
}
