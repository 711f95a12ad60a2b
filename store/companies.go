package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store/db"
)

// Company is a tenant. Methods that access a tenant's data require it as an argument, so that no
// caller can omit the tenant. A Company is shared and immutable. It is small, because thousands are
// cached. A key rotation creates a new Company value.
type Company struct {
	Chain        int64 // its number, and the ID of its action chain
	ID           string
	RegisteredAt string
	Actions      db.Log
	Control      db.Log
	Issuer       *cred.Issuer // with the keys at the time of the lookup

	complete bool               // the control log covers every row that the service obeys
	key      ed25519.PrivateKey // current signing key
}

// Create registers a company with a new key pair, two logs and its bootstrap API key, and appends
// it to the log of the companies, in one transaction. It returns ErrExists, or a
// *TablesChangedError or *RolledBackError if the log of the companies failed a check.
func (s Companies) Create(
	ctx context.Context, id string, metadata json.RawMessage, now time.Time,
) (*Company, APIKey, error) {
	if id == db.InstallationID {
		return nil, APIKey{}, fmt.Errorf("company %q: %w", id, ErrExists)
	}
	if err := s.db.Tables.Changeable(ctx, Caller{Company: &Company{Chain: db.Installation}}); err != nil {
		return nil, APIKey{}, fmt.Errorf("create company %q: %w", id, err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, APIKey{}, err
	}
	c := &Company{ID: id, RegisteredAt: chain.FormatTime(now), key: private, complete: true}
	label := "bootstrap"
	key := s.db.Credentials.newKey(&label, now)
	_, err = s.db.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) {
		if err := s.mayRegister(w, now); err != nil {
			return nil, err
		}
		if err := w.One([]any{&c.Chain}, `INSERT INTO company (id, company_id, registered_at, metadata)
			VALUES ((SELECT coalesce(max(id), 0) + 1 FROM company WHERE id < ?), ?, ?, ?) RETURNING id`,
			int64(db.Installation), c.ID, c.RegisteredAt, textOrNull(metadata)); err != nil {
			return nil, err
		}
		if err := s.insertIdentity(w, c); err != nil {
			return nil, err
		}
		created, err := s.db.Credentials.insertKey(w, c.Chain, key, Grant{Role: Admin}, "")
		if err != nil {
			return nil, err
		}
		registered, err := s.registration(w, c, metadata)
		if err != nil {
			return nil, err
		}
		drafts, err := s.db.controlDrafts(Caller{Company: c}, registered, created)
		if err != nil {
			return nil, err
		}
		listed, err := s.listed(w, c.Chain, now)
		return append(drafts, listed...), err
	})
	if db.IsDuplicate(err) {
		return nil, APIKey{}, fmt.Errorf("company %q: %w", id, ErrExists)
	}
	if err != nil {
		return nil, APIKey{}, fmt.Errorf("create company %q: %w", id, err)
	}
	c.Issuer = cred.NewIssuer(s.db.Domain(), c.ID, private, s.verified)
	return c, key, nil
}

// registration returns the first record of a control log.
func (s Companies) registration(w *db.Conn, c *Company, metadata json.RawMessage) (e controlEvent, err error) {
	settings, err := sharedSettings(w)
	if err != nil {
		return e, err
	}
	public := keys.Describe(c.key.Public().(ed25519.PublicKey))
	return controlEvent{CompanyRegistered, subjectCompany(c.ID), map[string]any{
		"registeredAt": c.RegisteredAt, "metadataHash": hashOrNil(metadata), "kid": public.KID,
		"fingerprint": public.Fingerprint,
		"settings":    settings,
		"logs":        map[string]any{string(db.Actions): c.Actions.Origin, string(db.Control): c.Control.Origin},
	}}, nil
}

// Get returns a company by its companyId, or ErrNotFound. Companies are cached until one of their
// keys changes; if other servers write the database too, for a moment only. The installation cannot
// be found by its ID.
func (s Companies) Get(ctx context.Context, id string) (*Company, error) {
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
func (s Companies) OfChain(ctx context.Context, number int64) (*Company, error) {
	if c, ok := s.byChain.Get(number); ok && s.stands(c) {
		return c.Value, nil
	}
	return s.read(ctx, number)
}

// now is Companies.OfChain for results that are cached themselves. It bypasses the cache on a
// database with several writers, where otherwise the ages would add up.
func (s Companies) now(ctx context.Context, number int64) (*Company, error) {
	if s.db.MultiWriter() {
		return s.read(ctx, number)
	}
	return s.OfChain(ctx, number)
}

// stands reports whether a cached company is still valid. In a file that only this process writes,
// it is valid until it is forgotten.
func (s Companies) stands(c db.Dated[*Company]) bool {
	return !s.db.MultiWriter() || time.Since(c.Began) < db.RememberedOfShared
}

func (s Companies) read(ctx context.Context, number int64) (*Company, error) {
	c, err := s.find(ctx, "company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}

// Metadata returns the registered metadata of the caller's company, or nil.
func (s Companies) Metadata(ctx context.Context, by Caller) (json.RawMessage, error) {
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
func (s Companies) find(ctx context.Context, where string, arg any) (*Company, error) {
	byID, byChain := s.byID.Generation(), s.byChain.Generation()
	began := time.Now()
	c, err := s.db.loadCompany(ctx, where, arg)
	if err != nil {
		return nil, err
	}
	read := db.Dated[*Company]{Value: c, Began: began}
	s.byID.Put(byID, c.ID, read)
	s.byChain.Put(byChain, c.Chain, read)
	return c, nil
}

func (v *View) loadCompany(ctx context.Context, where string, arg any) (*Company, error) {
	c := new(Company)
	err := v.Read(ctx, func(r *db.Conn) (err error) {
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
		if err := v.store.Companies.check(r, c, metadata, latest); err != nil {
			return err
		}
		c.Issuer, c.key, err = v.store.Companies.findIssuer(r, c)
		return err
	})
	return c, err
}

// textOrNull encodes optional JSON for a column; rawOrNil decodes it.
func textOrNull(j json.RawMessage) sql.NullString {
	return sql.NullString{String: string(j), Valid: j != nil}
}

func rawOrNil(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}
