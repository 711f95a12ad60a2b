package store

import (
	"context"
	"errors"
	"fmt"

	"attestd/store/db"
	"attestd/store/projection"
)

// A JWT has no row that ends with the credential with which it was asked for. So it names that
// credential, and introspection of the JWT checks whether the credential still exists: for clients
// and keys of agents see Credentials.CheckClient and AgentKeys.Live.

// Check returns ErrNotFound unless the caller's company has the federation of a name that was made
// at a time. Answers are cached; a deletion takes effect before Delete returns.
func (s Federations) Check(ctx context.Context, by Caller, name, createdAt string) error {
	since, err := db.Lookup(s.known.requesters, owned{by.Company.Chain, federations.about(name)}, by.At, func() (since string, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			f, err := federations.knownOne(r, "company = ? AND name = ?", by.Company.Chain, name)
			if err != nil {
				return err
			}
			since = f.row.CreatedAt
			return s.check(r, by.Company, f)
		})
		return since, orAbsent(err)
	})
	if err == nil && (since == "" || since != createdAt) {
		err = db.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("federation %q of %s: %w", name, createdAt, err)
	}
	return nil
}

// CheckKey returns ErrNotFound unless the caller's company has the API key with a fingerprint. It
// does not say whether the key has expired. Answers are cached; a deletion takes effect before
// DeleteKey returns.
func (s Credentials) CheckKey(ctx context.Context, by Caller, fingerprint string) error {
	created, err := db.Lookup(s.requesters, owned{by.Company.Chain, apiKeys.about(fingerprint)}, by.At, func() (created string, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			k, err := apiKeys.knownOne(r, "company = ? AND fingerprint = ?", by.Company.Chain, fingerprint)
			if err != nil {
				return err
			}
			created = k.row.createdAt
			l, err := controlRecord(r, by.Company, k.latest)
			if err != nil {
				return s.db.noted(by.Company, err)
			}
			return s.db.checked(by.Company, l.Credential(projection.TableAPIKey, fingerprint, apiKeys.row(&k.row)))
		})
		return created, orAbsent(err)
	})
	if err == nil && created == "" {
		err = db.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("API key %s: %w", fingerprint, err)
	}
	return nil
}

// orAbsent makes of ErrNotFound the zero value, which is cached.
func orAbsent(err error) error {
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	return err
}
