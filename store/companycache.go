package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"attestd/crypto/cred"
	"attestd/store/db"
	"attestd/store/projection"
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

// Only returns the company of a database that has no other one but the installation; ErrNotFound
// elsewhere.
func (s companyCache) Only(ctx context.Context) (*Company, error) {
	var found []int64
	for number, err := range s.Numbers(ctx, 0) {
		if err != nil {
			return nil, err
		}
		if found = append(found, number); len(found) > 1 {
			break
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("the only company: %w", db.ErrNotFound)
	}
	return s.OfChain(ctx, found[0])
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

// check compares the row of a company, and the names of its logs, with its control log, and sets
// c.complete. latest is the newest record about the company.
func (s companyCache) check(r *db.Conn, c *Company, metadata sql.NullString, latest sql.NullInt64) error {
	// the first record always names the company
	first, err := controlRecord(r, c, sql.NullInt64{Int64: db.RecordID(c.Control.Chain, 0), Valid: true})
	if errors.Is(err, db.ErrNotFound) {
		return nil // nothing was recorded yet
	}
	if err != nil {
		return s.db.noted(c, err)
	}
	newest, err := controlRecord(r, c, latest)
	if err != nil {
		return s.db.noted(c, err)
	}
	if !newest.Tells() {
		if first.Tells() {
			return s.db.noted(c, changedTables(c,
				&projection.Difference{Table: projection.TableCompany, Index: first.Index,
					What: "is not the company that was registered"}))
		}
		return nil
	}
	c.complete = true
	return s.db.checked(c, newest.Company(projection.Company{
		RegisteredAt: c.RegisteredAt, MetadataHash: hashOf(rawOrNil(metadata)), Actions: c.Actions.Origin, Control: c.Control.Origin,
	}))
}

// changeable is Tables.Changeable.
func (s companyCache) changeable(ctx context.Context, by Caller) error {
	if err := s.db.intact(by.Company.Chain); err != nil {
		return err
	}
	return s.Active(ctx, by)
}

// Active returns ErrSuspended if the caller's company is suspended, unless an operator acts.
// Answers are cached; a change takes effect before Suspend or Resume returns. What the company
// appends is decided by the log's writer, which never appends behind the record of the suspension.
func (s companyCache) Active(ctx context.Context, by Caller) error {
	if by.Operator || by.Company.Chain == db.Installation {
		return nil
	}
	suspended, err := db.Lookup(s.suspended, by.Company.Chain, by.At, func() (bool, error) {
		found, err := s.Suspension(ctx, by.Company)
		return found.At != "", err
	})
	if err == nil && suspended {
		err = s.db.Refused(ErrSuspended)
	}
	if err != nil {
		return fmt.Errorf("company %q: %w", by.Company.ID, err)
	}
	return nil
}

// Suspension reads the suspension of a company, and compares it with the newest control record
// about it.
func (s companyCache) Suspension(ctx context.Context, c *Company) (found Suspension, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found, err = s.loadSuspension(r, c)
		return err
	})
	return found, err
}

func (s companyCache) loadSuspension(r *db.Conn, c *Company) (found Suspension, err error) {
	var at, reason sql.NullString
	var latest sql.NullInt64
	if err := r.One([]any{&at, &reason, &latest}, `SELECT suspended_at, reason, `+latestOf("CAST(?1 AS BIGINT)", "?2")+`
		FROM (SELECT 1) AS one LEFT JOIN company_suspension ON company = ?1`, c.Chain, suspensions.subject); err != nil {
		return found, err
	}
	found = Suspension{at.String, reason.String}
	has := suspensions.row(&storedSuspension{Suspension: found})
	return found, s.db.compared(r, c, latest, func(l *projection.Latest) *projection.Difference { return l.Suspension(has) })
}

// LogOfChain returns a log and its company by the ID of its chain, or ErrNotFound.
func (s companyCache) LogOfChain(ctx context.Context, number int64) (*Company, db.Log, error) {
	company, name := db.LogOf(number)
	c, err := s.OfChain(ctx, company)
	if err != nil {
		return nil, db.Log{}, err
	}
	return c, c.Log(name), nil
}
