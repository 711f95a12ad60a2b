package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"attestd/crypto/cred"
	"attestd/store/db"
)

// companyCache reads companies, checks them against their control logs, and caches them.
type companyCache struct {
	db *base

	byID      *db.Cache[string, db.Dated[*Company]]
	byChain   *db.Cache[int64, db.Dated[*Company]]
	suspended *db.Cache[int64, db.Dated[bool]]
	// shared by all companies
	verified *cred.Verified
}

// Get returns a company by its companyId, or ErrNotFound. Companies are cached until one of their
// keys changes; if other servers write the database too, for a moment only. The installation cannot
// be found by its ID.
func (s companyCache) Get(ctx context.Context, id string) (*Company, error) {
	if id == db.InstallationID {
		return nil, fmt.Errorf("company %q: %w", id, db.ErrNotFound)
	}
	if c, ok := s.byID.Get(id); ok && s.stands(c) {
		return c.Value, nil
	}
	c, err := s.find(ctx, "company_id = ?", id)
	if err != nil {
		return nil, fmt.Errorf("company %q: %w", id, err)
	}
	return c, nil
}

// OfChain returns a company by its number, which is the ID of its action chain. It returns
// ErrNotFound for an unknown number.
func (s companyCache) OfChain(ctx context.Context, number int64) (*Company, error) {
	if c, ok := s.byChain.Get(number); ok && s.stands(c) {
		return c.Value, nil
	}
	return s.read(ctx, number)
}

// now is Companies.OfChain for results that are cached themselves. It bypasses the cache on a
// database with several writers, where otherwise the ages would add up.
func (s companyCache) now(ctx context.Context, number int64) (*Company, error) {
	if s.db.MultiWriter() {
		return s.read(ctx, number)
	}
	return s.OfChain(ctx, number)
}

// stands reports whether a cached company is still valid. In a file that only this process writes,
// it is valid until it is forgotten.
func (s companyCache) stands(c db.Dated[*Company]) bool {
	return !s.db.MultiWriter() || time.Since(c.Began) < db.RememberedOfShared
}

func (s companyCache) read(ctx context.Context, number int64) (*Company, error) {
	c, err := s.find(ctx, "company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}

// Metadata returns the registered metadata of the caller's company, or nil.
func (s companyCache) Metadata(ctx context.Context, by Caller) (json.RawMessage, error) {
	var metadata sql.NullString
	err := s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&metadata}, `SELECT metadata FROM company WHERE id = ?`, by.Company.Chain)
	})
	if err != nil {
		return nil, fmt.Errorf("metadata of company %q: %w", by.Company.ID, err)
	}
	return rawOrNil(metadata), nil
}

// find reads the company that a condition selects, and caches it.
func (s companyCache) find(ctx context.Context, where string, arg any) (*Company, error) {
	byID, byChain := s.byID.Generation(), s.byChain.Generation()
	began := time.Now()
	c, err := s.load(ctx, &s.db.now.Source, where, arg)
	if err != nil {
		return nil, err
	}
	read := db.Dated[*Company]{Value: c, Began: began}
	s.byID.Put(byID, c.ID, read)
	s.byChain.Put(byChain, c.Chain, read)
	return c, nil
}

func (s companyCache) load(ctx context.Context, from *db.Source, where string, arg any) (*Company, error) {
	c := new(Company)
	err := from.Read(ctx, func(r *db.Conn) (err error) {
		var metadata sql.NullString
		var latest sql.NullInt64
		if err = r.One([]any{&c.Chain, &c.ID, &c.RegisteredAt, &metadata, &c.Actions.ID, &c.Actions.Origin, &c.Control.ID,
			&c.Control.Origin, &latest},
			`SELECT company.id, company_id, registered_at, metadata, a.log_id, a.origin, c.log_id, c.origin, `+latestOf("company.id", "'company:' || company_id")+` FROM company
			JOIN log a ON a.company = company.id AND a.name = 'actions' JOIN log c ON c.company = company.id AND c.name = 'control' WHERE `+where, arg); err != nil {
			return err
		}
		c.Actions.Name, c.Actions.Chain = db.Actions, db.Actions.ChainID(c.Chain)
		c.Control.Name, c.Control.Chain = db.Control, db.Control.ChainID(c.Chain)
		if err := s.check(r, c, metadata, latest); err != nil {
			return err
		}
		c.Issuer, c.key, err = s.findIssuer(r, c)
		return err
	})
	return c, err
}

// Numbers yields the numbers of all companies after one, in their order, but the installation. They
// are the IDs of their action chains.
func (s companyCache) Numbers(ctx context.Context, after int64) iter.Seq2[int64, error] {
	scan := func(rows *sql.Rows) (number int64, err error) {
		err = rows.Scan(&number)
		return number, err
	}
	return db.List(ctx, s.db.DB, "companies", scan, `SELECT id FROM company WHERE id > ? AND id < ? ORDER BY id`,
		func(last int64) []any { return []any{max(last, after), int64(db.Installation)} })
}

// Count returns the number of companies but the installation, as their numbers go.
func (s companyCache) Count(ctx context.Context) (n int64, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&n}, `SELECT coalesce(max(id), 0) FROM company WHERE id < ?`, int64(db.Installation))
	})
	if err != nil {
		return 0, fmt.Errorf("count companies: %w", err)
	}
	return n, nil
}
