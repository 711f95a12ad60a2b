package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/store/projection"
)

// A JWT has no row that ends with the credential with which it was asked for. So it names that, and
// whoever is asked about the JWT looks whether the credential is there: for clients and keys of
// agents see Credentials.CheckClient and AgentKeys.Live.

// Check returns ErrNotFound unless the caller's company has the federation of a name that was made
// at a time. Answers are cached; a deletion takes effect before Delete returns.
func (s Federations) Check(ctx context.Context, by Caller, name, createdAt string) error {
	since, err := lookup(s.db, &s.db.requesters, owned{by.Company.Chain, "federation:" + name}, by.At, func() (since string, err error) {
		err = s.db.read(ctx, func(r *conn) error {
			var latest sql.NullInt64
			f, err := row(r, func(rows *sql.Rows) (Federation, error) { return scanFederationAnd(rows, &latest) },
				"SELECT "+federationColumns+", "+latestOf("f.company", "'federation:' || name")+" FROM federation f WHERE company = ? AND name = ?", by.Company.Chain, name)
			if err != nil {
				return err
			}
			since = f.CreatedAt
			return s.check(r, by.Company, f, latest)
		})
		return since, orAbsent(err)
	})
	if err == nil && (since == "" || since != createdAt) {
		err = ErrNotFound
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
	created, err := lookup(s.db, &s.db.requesters, owned{by.Company.Chain, "api-key:" + fingerprint}, by.At, func() (created string, err error) {
		err = s.db.read(ctx, func(r *conn) error {
			var role string
			var madeBy sql.NullString
			var expires, latest sql.NullInt64
			if err := r.one([]any{&created, &role, &expires, &madeBy, &latest}, `SELECT created_at, role, expires_at, made_by, `+latestOf("company", "'api-key:' || fingerprint")+`
				FROM api_key WHERE company = ? AND fingerprint = ?`, by.Company.Chain, fingerprint); err != nil {
				return err
			}
			l, err := r.controlRecord(by.Company, latest)
			if err != nil {
				return s.db.Tables.noted(by.Company, err)
			}
			return s.db.Tables.checked(by.Company, l.Credential(projection.TableAPIKey, fingerprint, credentialRow(fingerprint, role, expires, madeBy)))
		})
		return created, orAbsent(err)
	})
	if err == nil && created == "" {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("API key %s: %w", fingerprint, err)
	}
	return nil
}

// orAbsent makes of ErrNotFound the zero value, which is cached.
func orAbsent(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
