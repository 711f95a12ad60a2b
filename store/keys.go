package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
)

// APIKey is a key record; Key is the full value.
type APIKey struct {
	Key       string
	Label     *string
	CreatedAt string

	id int64
}

// newKey makes a key with the prefix of the service; the neutral name "service" gives the
// specification's own, svc_.
func (s Credentials) newKey(label *string, now time.Time) APIKey {
	prefix := s.db.settings.Domain.Service
	if prefix == "service" {
		prefix = "svc"
	}
	return APIKey{Key: keys.NewSecret(prefix), Label: label, CreatedAt: chain.FormatTime(now)}
}

// insertKey keeps a key; madeBy is the fingerprint of the credential that asked for it, "" for a
// company's first.
func (s Credentials) insertKey(w *conn, company int64, k APIKey, g Grant, madeBy string) (created controlEvent, err error) {
	hash := keys.HashSecret(k.Key)
	fingerprint := keys.Fingerprint(hash)
	index := s.db.secrets.Index(hash)
	_, err = w.exec(`INSERT INTO api_key (company, hash, key, label, created_at, made_by, role, expires_at, fingerprint)
		VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)`,
		company, index, s.db.secrets.KeepAPIKey(company, index, k.Key), k.Label, k.CreatedAt, madeBy, g.Role, g.expiresAt(), fingerprint)
	created = controlEvent{APIKeyCreated, subjectAPIKey(fingerprint), grantDetails(fingerprint, g)}
	created.details["label"] = k.Label
	return created, err
}

// CreateKey makes a further API key of the caller's company; ErrTooMany where that has as many as
// most.
func (s Credentials) CreateKey(ctx context.Context, by Caller, label *string, g Grant, most int) (APIKey, error) {
	key := s.newKey(label, by.At)
	err := s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM api_key WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		created, err := s.insertKey(w, by.Company.Chain, key, g, by.Credential)
		return []controlEvent{created}, err
	})
	if err != nil {
		return APIKey{}, fmt.Errorf("create API key: %w", err)
	}
	return key, nil
}

// checkCount refuses another row of a company that has as many as most.
func checkCount(w *conn, most int, query string, company int64) error {
	var n int
	if err := w.one([]any{&n}, query, company); err != nil {
		return err
	}
	if n >= most {
		return fmt.Errorf("%w: the bound is %d", ErrTooMany, most)
	}
	return nil
}

// Keys yields the keys of the caller's company in the order of their creation.
func (s Credentials) Keys(ctx context.Context, by Caller) iter.Seq2[APIKey, error] {
	scan := func(rows *sql.Rows) (k APIKey, err error) {
		var index []byte
		if err = rows.Scan(&k.id, &index, &k.Key, &k.Label, &k.CreatedAt); err == nil {
			k.Key, err = s.db.secrets.OpenAPIKey(by.Company.Chain, index, k.Key)
		}
		return k, err
	}
	return list(ctx, s.db, "API keys", scan, `SELECT id, hash, key, label, created_at FROM api_key WHERE company = ? AND id > ? ORDER BY id`,
		func(last APIKey) []any { return []any{by.Company.Chain, last.id} })
}

// DeleteKey deletes a key. It returns ErrNotFound when it is no key of the caller's company, and
// ErrLastKey when none would be left that is an admin's and does not expire. That is decided inside
// the transaction.
func (s Credentials) DeleteKey(ctx context.Context, by Caller, key string) error {
	hash := keys.HashSecret(key)
	// Whatever the outcome, and it is unknown after a failed commit: the next use of the key asks
	// the file.
	defer s.db.credentials.forget(hash)
	err := s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		n, err := w.exec(`DELETE FROM api_key WHERE company = ? AND hash = ?`, by.Company.Chain, s.db.secrets.Index(hash))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, ErrNotFound
		}
		var left bool
		if err := w.one([]any{&left}, `SELECT EXISTS (SELECT 1 FROM api_key WHERE company = ? AND role = 'admin' AND expires_at IS NULL)`, by.Company.Chain); err != nil {
			return nil, err
		}
		if !left {
			return nil, ErrLastKey // and the deletion is undone
		}
		fingerprint := keys.Fingerprint(hash)
		return []controlEvent{{APIKeyDeleted, subjectAPIKey(fingerprint), map[string]any{"fingerprint": fingerprint}}}, nil
	})
	if err != nil {
		return fmt.Errorf("delete API key: %w", err)
	}
	return nil
}

// FirstKey returns the oldest API key of a company; ErrNotFound when the company is unknown or has
// none. Keys that are sealed need Unseal before; ErrMasterKey.
func (s Credentials) FirstKey(ctx context.Context, companyID string) (APIKey, error) {
	var k APIKey
	var company int64
	var index []byte
	err := s.db.read(ctx, func(r *conn) error {
		return r.one([]any{&company, &index, &k.Key, &k.Label, &k.CreatedAt}, `SELECT company, hash, key, label, created_at FROM api_key
			WHERE company = (SELECT id FROM company WHERE company_id = ?) ORDER BY id LIMIT 1`, companyID)
	})
	if err == nil {
		k.Key, err = s.db.secrets.OpenAPIKey(company, index, k.Key)
	}
	if err != nil {
		return APIKey{}, fmt.Errorf("first API key of %q: %w", companyID, err)
	}
	return k, nil
}
