package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// Federations are other issuers whose tokens companies trust.
type Federations struct {
	db        *base
	keys      rowKeys
	companies companyCache
	agents    Agents
	known     credentialCaches

	byIssuer *db.Cache[owned, db.Dated[[]Federation]]
}

// Federation is another issuer whose tokens a company trusts. It never changes: it is made and
// deleted.
type Federation struct {
	Name      string
	Issuer    string // iss of the tokens
	Audience  string // their aud
	JWKS      string // key set as canonical JSON; "" where it is fetched
	JWKSURI   string // where it is; "" where the issuer's metadata say so, or with JWKS
	Rules     string // canonical JSON
	CreatedAt string

	id, company int64
}

var federations = right[Federation, projection.Federation]{
	table: projection.TableFederation, subject: "federation:", title: "name", order: "id",
	columns: func(f *Federation) []column {
		return []column{
			rowID(&f.id), plain("company", &f.company),
			plain("name", &f.Name).as("federation"),
			plain("issuer", &f.Issuer).as("issuer"),
			plain("audience", &f.Audience).as("audience"),
			optional("jwks", &f.JWKS).asJSON("jwks"),
			optional("jwks_uri", &f.JWKSURI).as("jwksUri"),
			plain("rules", &f.Rules).asJSON("rules"),
			plain("created_at", &f.CreatedAt),
		}
	},
	row: func(f *Federation) projection.Federation {
		return projection.Federation{Issuer: f.Issuer, Audience: f.Audience, JWKS: f.JWKS, JWKSURI: f.JWKSURI, Rules: f.Rules}
	},
}

// Create creates a federation. ErrExists where the company has one of this name, or one of this
// issuer and audience; ErrTooMany where it has most.
func (s Federations) Create(ctx context.Context, by Caller, f Federation, most int) (Federation, error) {
	defer s.byIssuer.Forget() // whatever the outcome
	defer s.known.requesters.Forget(owned{by.Company.Chain, federations.about(f.Name)})
	f.company, f.CreatedAt = by.Company.Chain, chain.FormatTime(by.At)
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		var known int64
		switch err := w.One([]any{&known}, `SELECT id FROM federation WHERE company = ?1 AND (name = ?2 OR issuer = ?3 AND audience = ?4) LIMIT 1`,
			by.Company.Chain, f.Name, f.Issuer, f.Audience); {
		case err == nil:
			return nil, ErrExists
		case !errors.Is(err, db.ErrNotFound):
			return nil, err
		}
		if err := checkCount(w, most, `SELECT count(*) FROM federation WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		_, err := federations.insert(w, &f, "")
		return []controlEvent{federations.created(FederationCreated, &f, nil)}, err
	})
	if err != nil {
		return Federation{}, fmt.Errorf("create federation %q: %w", f.Name, err)
	}
	return f, nil
}

// List yields the federations of the caller's company in the order of creation.
func (s Federations) List(ctx context.Context, by Caller) iter.Seq2[Federation, error] {
	return db.List(ctx, s.db.DB, "federations", federations.scan, "SELECT "+federations.list("f")+" FROM federation f WHERE company = ? AND id > ? ORDER BY id",
		func(last Federation) []any { return []any{by.Company.Chain, last.id} })
}

// Get returns a federation of the caller's company; ErrNotFound.
func (s Federations) Get(ctx context.Context, by Caller, name string) (f Federation, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		f, err = db.Row(r, federations.scan, "SELECT "+federations.list("f")+" FROM federation f WHERE company = ? AND name = ?", by.Company.Chain, name)
		return err
	})
	if err != nil {
		return Federation{}, fmt.Errorf("federation %q: %w", name, err)
	}
	return f, nil
}

// Delete deletes a federation with the access tokens that its workloads have; ErrNotFound. No
// server of the database accepts one of them when Delete returns.
func (s Federations) Delete(ctx context.Context, by Caller, name string) error {
	forget := func() {
		s.byIssuer.Forget()
		s.known.requesters.Forget(owned{by.Company.Chain, federations.about(name)})
		s.known.forgetTokens()
	}
	defer forget() // whatever the outcome
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		n, err := w.Exec(`DELETE FROM federation WHERE company = ? AND name = ?`, by.Company.Chain, name)
		if err == nil && n == 0 {
			err = db.ErrNotFound
		}
		return []controlEvent{{FederationDeleted, federations.about(name), map[string]any{"federation": name}}}, err
	})
	if err != nil {
		return fmt.Errorf("delete federation %q: %w", name, err)
	}
	return nil
}

// Trusting returns the federations of the caller's company with an issuer, one for each audience.
// Answers are cached; a deletion takes effect before Delete returns.
func (s Federations) Trusting(ctx context.Context, by Caller, issuer string) ([]Federation, error) {
	found, err := db.Lookup(s.byIssuer, owned{by.Company.Chain, issuer}, by.At, func() (found []Federation, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			found, err = s.load(r, by.Company, issuer)
			return err
		})
		return found, err
	})
	if err != nil {
		return nil, fmt.Errorf("federations: %w", err)
	}
	return found, nil
}

// Fetched is where a company's federation has its keys from, if not from its row.
type Fetched struct {
	Company         int64 // by its number
	Issuer, JWKSURI string
}

// Fetched returns most federations of all companies whose keys are fetched: the newest of each
// company, then the second of each, and so on.
func (s Federations) Fetched(ctx context.Context, most int) (found []Fetched, err error) {
	err = s.db.Read(ctx, func(r *db.Conn) error {
		found, err = db.All(r, func(rows *sql.Rows) (f Fetched, err error) {
			err = rows.Scan(&f.Company, &f.Issuer, &f.JWKSURI)
			return f, err
		}, `SELECT company, issuer, uri FROM (SELECT id, company, issuer, coalesce(jwks_uri, '') AS uri,
			row_number() OVER (PARTITION BY company ORDER BY id DESC) AS nth FROM federation WHERE jwks IS NULL) AS f
			ORDER BY nth, id LIMIT ?`, most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("federations whose keys are fetched: %w", err)
	}
	return found, nil
}

// load reads the federations with an issuer, and compares each with the newest control record about
// it. ErrNotFound where there is none: an unauthenticated caller names the issuer, so the miss is
// not cached.
func (s Federations) load(r *db.Conn, company *Company, issuer string) (found []Federation, err error) {
	known, err := federations.known(r, "company = ? AND issuer = ? ORDER BY id", company.Chain, issuer)
	if err == nil && len(known) == 0 {
		err = db.ErrNotFound
	}
	for _, k := range known {
		if err == nil {
			err = s.check(r, company, k)
		}
		found = append(found, k.row)
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// check compares a federation with the newest control record about it.
func (s Federations) check(r *db.Conn, company *Company, k known[Federation]) error {
	l, err := controlRecord(r, company, k.latest)
	if err != nil {
		return s.db.noted(company, err)
	}
	return s.db.checked(company, l.Federation(k.row.Name, federations.row(&k.row)))
}
