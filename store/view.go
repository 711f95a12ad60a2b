package store

import (
	"context"
	"fmt"

	"attestd/store/ledger"
)

// View reads the database: a Store at the time of each call, and Snapshot at one moment. It
// implements chain.Reader.
type View struct {
	ledger.View
	companies companyCache
	passports Passports
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
