package store

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// APIKey is an API key; Key is its full value.
type APIKey struct {
	Key       string
	Label     *string
	CreatedAt string

	id int64
}

// storedKey is an API key as it is stored.
type storedKey struct {
	id, company int64
	hash        []byte // or an HMAC, by which a presented key is found
	key         string // full value, sealed where the secrets of the file are
	label       *string
	createdAt   string
	madeBy      string // fingerprint of its creator; "" for the first key of a company
	grant       Grant
	fingerprint string
}

var apiKeys = right[storedKey, projection.Credential]{
	table: projection.TableAPIKey, subject: "api-key:", title: "fingerprint", order: "id",
	columns: func(k *storedKey) []column {
		return []column{
			rowID(&k.id), plain("company", &k.company), plain("hash", &k.hash), plain("key", &k.key),
			nullable("label", &k.label).as("label"),
			plain("created_at", &k.createdAt),
			optional("made_by", &k.madeBy),
			plain("role", &k.grant.Role).as("role"),
			end("expires_at", &k.grant.Expires).as("expiresAt"),
			plain("fingerprint", &k.fingerprint).as("fingerprint"),
		}
	},
	row: func(k *storedKey) projection.Credential { return credentialRow(k.fingerprint, k.grant, k.madeBy) },
	wrong: func(s *base, c *Company, k *storedKey) string {
		if !s.isKey(c, k) {
			return "its text or its hash is of another key"
		}
		return ""
	},
}

// credentialRow is the comparable content of the row of an API key or client.
func credentialRow(fingerprint string, g Grant, madeBy string) projection.Credential {
	return projection.Credential{Fingerprint: fingerprint, Role: string(g.Role), ExpiresAt: formatEnd(g.Expires), MadeBy: madeBy}
}

// isKey reports whether the stored text of an API key matches the key that its row names. It
// returns true if this process cannot read the text.
func (s *base) isKey(c *Company, k *storedKey) bool {
	if !s.IsUnsealed() {
		return true // Unseal was not called
	}
	text, err := s.Secrets().OpenAPIKey(c.Chain, k.hash, k.key)
	hash := keys.HashSecret(text)
	return err == nil && keys.Fingerprint(hash) == k.fingerprint && string(s.Secrets().Index(hash)) == string(k.hash)
}

// newKey creates a key with the prefix of the service. The default name "service" gives the prefix
// of the specification, svc_.
func (s Credentials) newKey(label *string, now time.Time) APIKey {
	prefix := s.db.Domain().Service
	if prefix == "service" {
		prefix = "svc"
	}
	return APIKey{Key: keys.NewSecret(prefix), Label: label, CreatedAt: chain.FormatTime(now)}
}

// insertKey stores a key. madeBy is the fingerprint of the credential that created it, or "" for a
// company's first key.
func (s Credentials) insertKey(
	w *db.Conn, company int64, k APIKey, g Grant, madeBy string,
) (created controlEvent, err error) {
	hash := keys.HashSecret(k.Key)
	index := s.db.Secrets().Index(hash)
	stored := storedKey{company: company, hash: index, key: s.db.Secrets().KeepAPIKey(company, index, k.Key), label: k.Label, createdAt: k.CreatedAt,
		madeBy: madeBy, grant: g, fingerprint: keys.Fingerprint(hash)}
	_, err = apiKeys.insert(w, &stored, "")
	return apiKeys.created(APIKeyCreated, &stored, nil), err
}

// CreateKey creates another API key for the caller's company. It returns ErrTooMany if the company
// has most keys.
func (s Credentials) CreateKey(ctx context.Context, by Caller, label *string, g Grant, most int) (APIKey, error) {
	key := s.newKey(label, by.At)
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
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

// Keys yields the keys of the caller's company in the order of creation.
func (s Credentials) Keys(ctx context.Context, by Caller) iter.Seq2[APIKey, error] {
	scan := func(rows *sql.Rows) (k APIKey, err error) {
		var index []byte
		if err = rows.Scan(&k.id, &index, &k.Key, &k.Label, &k.CreatedAt); err == nil {
			k.Key, err = s.db.Secrets().OpenAPIKey(by.Company.Chain, index, k.Key)
		}
		return k, err
	}
	return db.List(ctx, s.db.DB, "API keys", scan,
		`SELECT id, hash, key, label, created_at FROM api_key WHERE company = ? AND id > ? ORDER BY id`,
		func(last APIKey) []any { return []any{by.Company.Chain, last.id} })
}

// DeleteKey deletes a key. It returns ErrNotFound if the caller's company has no such key, and
// ErrLastKey if no unexpiring key of an admin would remain, which the transaction checks.
func (s Credentials) DeleteKey(ctx context.Context, by Caller, key string) error {
	hash := keys.HashSecret(key)
	// Forget the key whatever the outcome, which is unknown after a failed commit. The next use of
	// the key reads the database.
	defer s.found.Forget(hash)
	defer s.requesters.Forget(owned{by.Company.Chain, apiKeys.about(keys.Fingerprint(hash))})
	err := s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		n, err := w.Exec(`DELETE FROM api_key WHERE company = ? AND hash = ?`, by.Company.Chain, s.db.Secrets().Index(hash))
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, db.ErrNotFound
		}
		var left bool
		if err := w.One([]any{&left}, `SELECT EXISTS (SELECT 1 FROM api_key WHERE company = ? AND role = 'admin'
			AND expires_at IS NULL)`, by.Company.Chain); err != nil {
			return nil, err
		}
		if !left {
			return nil, ErrLastKey // this rolls back the deletion
		}
		fingerprint := keys.Fingerprint(hash)
		return []controlEvent{{APIKeyDeleted, apiKeys.about(fingerprint), map[string]any{"fingerprint": fingerprint}}}, nil
	})
	if err != nil {
		return fmt.Errorf("delete API key: %w", err)
	}
	return nil
}

// FirstKey returns the oldest API key of a company that can do everything and does not expire; a
// company always has one. In a file of an older schema, which may have no roles, it returns the
// oldest key. It returns ErrNotFound if the company is unknown. For sealed keys the caller MUST
// call Unseal first, or FirstKey returns ErrMasterKey.
func (s Credentials) FirstKey(ctx context.Context, companyID string) (APIKey, error) {
	var k APIKey
	var company int64
	var index []byte
	full := ""
	if s.db.UpToDate() {
		full = "AND role = 'admin' AND expires_at IS NULL"
	}
	err := s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&company, &index, &k.Key, &k.Label, &k.CreatedAt}, `SELECT company, hash, key, label, created_at FROM api_key
			WHERE company = (SELECT id FROM company WHERE company_id = ?) `+full+` ORDER BY id LIMIT 1`, companyID)
	})
	if err == nil {
		k.Key, err = s.db.Secrets().OpenAPIKey(company, index, k.Key)
	}
	if err != nil {
		return APIKey{}, fmt.Errorf("first API key of %q: %w", companyID, err)
	}
	return k, nil
}
