package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
	"attestd/store/db"
)

// Companies are the tenants, with their keys and the log of their registrations.
type Companies struct {
	companyCache

	credentials Credentials
	tokenKeys   TokenKeys
}

// Create registers a company with a new key pair, two logs and its bootstrap API key, and appends
// it to the log of the companies, in one transaction. It returns ErrExists, or a
// *TablesChangedError or *RolledBackError if the log of the companies failed a check.
func (s Companies) Create(
	ctx context.Context, id string, metadata json.RawMessage, now time.Time,
) (*Company, APIKey, error) {
	return s.create(ctx, id, metadata, now, nil)
}

// create is Create with what else happens in the transaction; nil for nothing.
func (s Companies) create(
	ctx context.Context, id string, metadata json.RawMessage, now time.Time, further func(w *db.Conn, c *Company) ([]chain.Draft, error),
) (*Company, APIKey, error) {
	if id == db.InstallationID {
		return nil, APIKey{}, fmt.Errorf("company %q: %w", id, ErrExists)
	}
	if err := s.changeable(ctx, Caller{Company: &Company{Chain: db.Installation}}); err != nil {
		return nil, APIKey{}, fmt.Errorf("create company %q: %w", id, err)
	}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, APIKey{}, err
	}
	c := &Company{ID: id, RegisteredAt: chain.FormatTime(now), key: private, complete: true}
	label := "bootstrap"
	key := s.credentials.newKey(&label, now)
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
		created, err := s.credentials.insertKey(w, c.Chain, key, Grant{Role: Admin}, "")
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
		if further != nil {
			more, err := further(w, c)
			if err != nil {
				return nil, err
			}
			drafts = append(drafts, more...)
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

// Suspend suspends the caller's company, for a reason that its control log says. When Suspend
// returns, no server appends anything for it or issues anything to it; see Active. It reports false
// if the company is suspended already.
func (s Companies) Suspend(ctx context.Context, by Caller, reason string) (bool, error) {
	return s.suspend(ctx, by, Suspension{chain.FormatTime(by.At), reason})
}

// Resume ends a suspension, for a reason that the control log says. It reports false if there is
// none.
func (s Companies) Resume(ctx context.Context, by Caller, reason string) (bool, error) {
	return s.suspend(ctx, by, Suspension{Reason: reason})
}

func (companies Companies) suspend(ctx context.Context, by Caller, next Suspension) (changed bool, err error) {
	company := by.Company.Chain
	defer companies.suspended.Forget(company) // whatever the outcome
	err = companies.db.recorded(ctx, by, companies.db.Change, func(w *db.Conn) ([]controlEvent, error) {
		var at, reason sql.NullString
		err := w.One([]any{&at, &reason}, `SELECT suspended_at, reason FROM company_suspension WHERE company = ?`, company)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			return nil, err
		}
		if changed = at.Valid != (next.At != ""); !changed {
			return nil, nil
		}
		s := storedSuspension{company, next}
		action := CompanySuspended
		if next.At == "" {
			action = CompanyResumed
		}
		if _, err := suspensions.insert(w, &s, `ON CONFLICT (company) DO UPDATE SET suspended_at = excluded.suspended_at, reason = excluded.reason`); err != nil {
			return nil, err
		}
		return []controlEvent{suspensions.created(action, &s, nil)}, companies.relimit(w, by.Company)
	})
	if err != nil {
		return false, fmt.Errorf("suspend or resume company %q: %w", by.Company.ID, err)
	}
	return changed, nil
}

// relimit makes the writers of all servers read the limits of a company again before they append to
// its logs.
func (s Companies) relimit(w *db.Conn, c *Company) error {
	for _, l := range c.Logs() {
		if _, err := w.Rekey(l.Chain); err != nil {
			return err
		}
		s.db.Rekeyed(l.Chain)
	}
	return nil
}
