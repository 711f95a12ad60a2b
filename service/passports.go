package service

import (
	"context"
	"errors"

	"attestd/store"
)

// Passports are those of companies' agents.
type Passports struct {
	Store *store.Store
}

// Status returns the signed status of a passport, which is never "valid" for what the company has
// not issued.
func (p *Passports) Status(ctx context.Context, by store.Caller, jti string) (SignedStatus, error) {
	var found store.Passport
	revoked, err := p.Store.PassportRevoked(ctx, by, jti)
	if revoked {
		found, err = p.Store.Passport(ctx, by, jti)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return SignedStatus{}, err
	}
	return newStatus(by, jti, found, err == nil)
}
