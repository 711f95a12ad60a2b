package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// compareCompanies compares the companies with the log of the companies, which the caller has
// verified: each row must have a record, and each record a row. Both are ordered by company number,
// so they are merged in constant memory.
func (r *comparison) compareCompanies(ctx context.Context) error {
	var size, last int64 // one statement, because a registration writes both
	err := r.tables.db.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&size, &last}, `SELECT length, (SELECT coalesce(max(id), 0) FROM company WHERE id < ?)
			FROM head WHERE chain = ?`,
			int64(db.Installation), int64(CompanyLogChain))
	})
	if err != nil {
		return err
	}
	next, stop := iter.Pull2(db.List(ctx, r.tables.db.DB, "companies", scanListing,
		selectListings("company.id > ? AND company.id <= ?"),
		func(after listing) []any { return []any{after.Number, last} }))
	defer stop()
	m := companyMerge{comparison: r, next: next}
	if err := m.advance(); err != nil {
		return err
	}
	if err := r.eachControl(ctx, 0, size, m.take); err != nil {
		return err
	}
	return m.skipTo(db.Installation)
}

// companyMerge compares records with rows, both ordered by company number.
type companyMerge struct {
	*comparison
	next func() (listing, error, bool)
	row  listing // next row; after the last one, its number is that of the installation
	last int64   // number of the company in the last record
}

func (m *companyMerge) advance() error {
	row, err, more := m.next()
	if m.row = row; !more {
		m.row = listing{Number: db.Installation}
	}
	return err
}

// skipTo reports the rows before a number, which have no record.
func (m *companyMerge) skipTo(number int64) error {
	for m.row.Number < number {
		m.differs(m.row.CompanyID, -1, "no record of the log of the companies tells of it")
		if err := m.advance(); err != nil {
			return err
		}
	}
	return nil
}

func (m *companyMerge) differs(company string, index int64, what string) {
	m.add(&projection.Difference{Table: projection.TableCompany, Row: company, Index: index, What: what})
}

// take compares the next record of the log with the row of its company.
func (m *companyMerge) take(record *chain.Record) error {
	var r struct {
		ActionType ControlAction
		Payload    listing
	}
	if err := json.Unmarshal(record.Payload, &r); err != nil || r.ActionType != CompanyListed {
		return nil // the replay has reported unreadable records
	}
	l := r.Payload
	if l.Number <= m.last || l.Number >= db.Installation {
		m.differs(l.CompanyID, record.Index, fmt.Sprintf("is listed with number %d behind number %d", l.Number, m.last))
		return nil
	}
	m.last = l.Number
	if err := m.skipTo(l.Number); err != nil {
		return err
	}
	if m.row.Number > l.Number {
		m.differs(l.CompanyID, record.Index, "is missing, and the log of the companies tells of it")
		return nil
	}
	if what := l.unlike(m.row); what != "" {
		m.differs(l.CompanyID, record.Index, what)
	}
	return m.advance()
}

// unlike describes the first difference between a row and its listing, or returns "".
func (l listing) unlike(row listing) string {
	for _, c := range []struct{ what, listed, found string }{
		{"its ID", l.CompanyID, row.CompanyID},
		{"its first signing key", l.Fingerprint, row.Fingerprint},
		{"the origin of its actions", l.Logs.Actions, row.Logs.Actions},
		{"the origin of its control log", l.Logs.Control, row.Logs.Control},
		{"its time of registration", l.RegisteredAt, row.RegisteredAt},
		{"the hash of its metadata", l.MetadataHash, row.MetadataHash},
	} {
		if c.listed != c.found {
			return fmt.Sprintf("%s is %q, and the log of the companies says %q", c.what, c.found, c.listed)
		}
	}
	return ""
}

// HasLog reports whether the log of the companies exists. It does not exist before the first
// company is registered, nor in a database from before the log until the next start. In any other
// case a missing log is a *TablesChangedError.
func (s companyCache) HasLog(ctx context.Context) (isThere bool, err error) {
	var needed bool
	err = s.db.Read(ctx, func(c *db.Conn) error {
		return c.One([]any{&isThere, &needed}, `SELECT EXISTS (SELECT 1 FROM company WHERE id = ?1),
			EXISTS (SELECT 1 FROM company) AND NOT EXISTS (SELECT 1 FROM setting WHERE name = ?2)`, int64(db.Installation), unlistedSetting)
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("look for the log of the companies: %w", err)
	case needed && !isThere && s.db.UpToDate():
		return false, s.db.noted(&Company{Chain: db.Installation}, errNoCompanyLog())
	}
	return isThere, nil
}
