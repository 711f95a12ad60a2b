package store

import (
	"context"
	"fmt"

	"attestd/store/db"
	"attestd/store/ledger"
)

// View reads the database: a Store at the time of each call, and Snapshot at one moment. It
// implements chain.Reader.
type View struct {
	ledger.View
	companies companyCache
	passports Passports
}

// Snapshot calls fn with a snapshot of the database, which hides concurrent commits. fn MUST return
// soon, because it holds a connection of the pool, and on SQLite blocks checkpoints. It MUST NOT
// call the Store, which would use another connection, nor retain the View. If the connection is
// lost before the first read, fn runs again, so it MUST set its results and not add to them.
func (s *Store) Snapshot(ctx context.Context, fn func(*View) error) error {
	return s.DB.Snapshot(ctx, func(at db.Source) error {
		return fn(&View{ledger.View{Source: at}, s.View.companies, s.View.passports})
	})
}

// CompanyNow reads a company by its number, with its keys at the moment of the view. It returns
// ErrNotFound for an unknown number.
func (v *View) CompanyNow(ctx context.Context, number int64) (*Company, error) {
	c, err := v.companies.load(ctx, &v.Source, "company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}
