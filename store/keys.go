package store

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
)

// APIKey is a key record; Key is the full value.
type APIKey struct {
	Key       string  `json:"key"`
	Label     *string `json:"label"`
	CreatedAt string  `json:"createdAt"`
}

// newKey makes a key with the prefix of the service; the neutral name "service" gives the specification's own, svc_.
func (s *Store) newKey(label *string, now time.Time) APIKey {
	prefix := s.domain.Service
	if prefix == "service" {
		prefix = "svc"
	}
	return APIKey{Key: keys.NewSecret(prefix), Label: label, CreatedAt: chain.FormatTime(now)}
}

func insertKey(w *conn, company int64, k APIKey) error {
	hash := keys.HashSecret(k.Key)
	_, err := w.exec(`INSERT INTO api_key (company, hash, key, label, created_at) VALUES (?, ?, ?, ?, ?)`,
		company, hash[:], k.Key, k.Label, k.CreatedAt)
	return err
}

// CreateKey makes a further API key of a company.
func (s *Store) CreateKey(ctx context.Context, c *Company, label *string, now time.Time) (APIKey, error) {
	key := s.newKey(label, now)
	err := s.write(ctx, func(w *conn) error { return insertKey(w, c.Chain, key) })
	if err != nil {
		return APIKey{}, fmt.Errorf("create API key: %w", err)
	}
	return key, nil
}

// Keys returns the keys of a company in the order of their creation.
func (s *Store) Keys(ctx context.Context, c *Company) ([]APIKey, error) {
	var all []APIKey
	err := s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			var k APIKey
			err := rows.Scan(&k.Key, &k.Label, &k.CreatedAt)
			all = append(all, k)
			return err
		}, `SELECT key, label, created_at FROM api_key WHERE company = ? ORDER BY id`, c.Chain)
	})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	return all, nil
}

// DeleteKey: ErrNotFound when it is not a key of c; ErrLastKey, decided inside the transaction.
func (s *Store) DeleteKey(ctx context.Context, c *Company, key string) error {
	hash := keys.HashSecret(key)
	// Whatever the outcome, and it is unknown after a failed commit: the next use of the key asks the file.
	defer s.credentials.forget(hash)
	err := s.write(ctx, func(w *conn) error {
		n, err := w.exec(`DELETE FROM api_key WHERE company = ? AND hash = ?`, c.Chain, hash[:])
		if err != nil {
			return err
		}
		if n == 0 {
			return ErrNotFound
		}
		var left bool
		if err := w.one([]any{&left}, `SELECT EXISTS (SELECT 1 FROM api_key WHERE company = ?)`, c.Chain); err != nil {
			return err
		}
		if !left {
			return ErrLastKey // and the deletion is undone
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("delete API key: %w", err)
	}
	return nil
}

// FirstKey returns the oldest API key of a company; ErrNotFound when the company is unknown or has none.
func (s *Store) FirstKey(ctx context.Context, companyID string) (APIKey, error) {
	var k APIKey
	err := s.read(ctx, func(r *conn) error {
		return r.one([]any{&k.Key, &k.Label, &k.CreatedAt}, `SELECT key, label, created_at FROM api_key
			WHERE company = (SELECT id FROM company WHERE company_id = ?) ORDER BY id LIMIT 1`, companyID)
	})
	if err != nil {
		return APIKey{}, fmt.Errorf("first API key of %q: %w", companyID, err)
	}
	return k, nil
}
