package admin

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"attestd/crypto/keys"
	"attestd/store"
	"attestd/store/atrest"
	"attestd/store/db"
)

// resealing reseals all secrets of a file, within one transaction of its Conn.
type resealing struct {
	*db.Conn
	tables      store.Tables
	old, next   atrest.Secrets
	progress    func(stage string, done, total int64)
	done, total int64
}

func (r *resealing) run() error {
	if err := r.One([]any{&r.total}, `SELECT (SELECT count(*) FROM company_key WHERE seed IS NOT NULL) + (SELECT count(*) FROM witness_key) + (SELECT count(*) FROM api_key) +
		(SELECT count(*) FROM webhook) + (SELECT count(*) FROM token_key WHERE private IS NOT NULL)`); err != nil {
		return err
	}
	if err := r.privateKeys(); err != nil {
		return err
	}
	if err := r.signingTokenKeys(); err != nil {
		return err
	}
	if err := r.cosignerKey(); err != nil {
		return err
	}
	if err := r.apiKeys(); err != nil {
		return err
	}
	if err := r.webhookSecrets(); err != nil {
		return err
	}
	if err := r.tokenKey(); err != nil {
		return err
	}
	if r.old.HasLookup() { // HMACs do not change
		return nil
	}
	if err := r.clientSecrets(); err != nil {
		return err
	}
	return r.tokens()
}

func (r *resealing) advance() {
	if r.done++; r.progress != nil && (r.done%1024 == 0 || r.done == r.total) {
		r.progress("seal", r.done, r.total)
	}
}

// change reads all rows of a query before it changes the first, because otherwise an index might
// return changed rows again.
func change[T any](r *resealing, scan func(*sql.Rows) (T, error), query string, each func(T) error) error {
	var found []T
	err := r.Each(func(rows *sql.Rows) error {
		row, err := scan(rows)
		found = append(found, row)
		return err
	}, query)
	for i := 0; err == nil && i < len(found); i++ {
		err = each(found[i])
	}
	return err
}

func (r *resealing) privateKeys() error {
	type row struct {
		company, generation int64
		seed, public        []byte
	}
	return change(r, func(rows *sql.Rows) (k row, err error) {
		err = rows.Scan(&k.company, &k.generation, &k.seed, &k.public)
		return k, err
	}, `SELECT company, generation, seed, public_key FROM company_key WHERE seed IS NOT NULL`, func(k row) error {
		private, err := r.old.PrivateKey(k.company, k.generation, k.seed, k.public)
		if err != nil {
			return err
		}
		defer r.advance()
		_, err = r.Exec(`UPDATE company_key SET seed = ? WHERE company = ? AND generation = ?`,
			r.next.KeepSeed(k.company, k.generation, private), k.company, k.generation)
		return err
	})
}

func (r *resealing) signingTokenKeys() error {
	type row struct {
		company int64
		kid     string
		private []byte
	}
	return change(r, func(rows *sql.Rows) (k row, err error) {
		err = rows.Scan(&k.company, &k.kid, &k.private)
		return k, err
	}, `SELECT company, kid, private FROM token_key WHERE private IS NOT NULL`, func(k row) error {
		place := atrest.SigningTokenKeyPlace(k.company, k.kid)
		private, err := r.old.Open(k.private, place)
		if err != nil {
			return fmt.Errorf("private part of a token key: %w", err)
		}
		defer r.advance()
		_, err = r.Exec(`UPDATE token_key SET private = ? WHERE company = ? AND kid = ?`, r.next.Keep(private, place), k.company, k.kid)
		return err
	})
}

func (r *resealing) cosignerKey() error {
	type row struct{ seed, public []byte }
	return change(r, func(rows *sql.Rows) (k row, err error) {
		err = rows.Scan(&k.seed, &k.public)
		return k, err
	}, `SELECT seed, public_key FROM witness_key`, func(k row) error {
		private, err := r.old.CosignerKey(k.seed, k.public)
		if err != nil {
			return err
		}
		defer r.advance()
		_, err = r.Exec(`UPDATE witness_key SET seed = ?`, r.next.Keep(private.Seed(), atrest.CosignerPlace))
		return err
	})
}

func (r *resealing) apiKeys() error {
	type row struct {
		id, company int64
		index       []byte
		stored      string
	}
	return change(r, func(rows *sql.Rows) (k row, err error) {
		err = rows.Scan(&k.id, &k.company, &k.index, &k.stored)
		return k, err
	}, `SELECT id, company, hash, key FROM api_key`, func(k row) error {
		key, err := r.old.OpenAPIKey(k.company, k.index, k.stored)
		if err != nil {
			return err
		}
		defer r.advance()
		index := r.next.Index(keys.HashSecret(key))
		_, err = r.Exec(`UPDATE api_key SET hash = ?, key = ? WHERE id = ?`, index, r.next.KeepAPIKey(k.company, index, key),
			k.id)
		return err
	})
}

func (r *resealing) webhookSecrets() error {
	return r.tables.ResealWebhooks(r.Conn, func(company int64, id string, secret, former []byte) ([]byte, []byte, error) {
		secret, former, err := r.old.OpenWebhook(company, id, secret, former)
		if err != nil {
			return nil, nil, err
		}
		defer r.advance()
		secret, former = r.next.KeepWebhook(company, id, secret, former)
		return secret, former, nil
	})
}

// clientSecrets and tokens replace each SHA-256 by its HMAC.
func (r *resealing) clientSecrets() error {
	type row struct {
		id   int64
		hash [32]byte
	}
	return change(r, func(rows *sql.Rows) (o row, err error) {
		o.hash, err = scanHash(rows, &o.id)
		return o, err
	}, `SELECT id, secret_hash FROM oauth_client`, func(o row) error {
		_, err := r.Exec(`UPDATE oauth_client SET secret_hash = ? WHERE id = ?`, r.next.Index(o.hash), o.id)
		return err
	})
}

func (r *resealing) tokens() error {
	scan := func(rows *sql.Rows) ([32]byte, error) { return scanHash(rows) }
	if err := change(r, scan, `SELECT hash FROM oauth_token`, func(hash [32]byte) error {
		_, err := r.Exec(`UPDATE oauth_token SET hash = ? WHERE hash = ?`, r.next.TokenIndex(hash), hash[:])
		return err
	}); err != nil {
		return err
	}
	// whose rows are never updated
	return change(r, scan, `SELECT hash FROM federated_token`, func(hash [32]byte) error {
		_, err := r.Exec(`INSERT INTO federated_token (hash, company, federation, agent_id, jkt, expires_at, mac, client, delegation)
			SELECT ?, company, federation, agent_id, jkt, expires_at, mac, client, delegation FROM federated_token WHERE hash = ?`, r.next.TokenIndex(hash), hash[:])
		if err == nil {
			_, err = r.Exec(`DELETE FROM federated_token WHERE hash = ?`, hash[:])
		}
		return err
	})
}

// scanHash scans a row whose last column is a SHA-256.
func scanHash(rows *sql.Rows, before ...any) (hash [32]byte, err error) {
	var stored []byte
	if err = rows.Scan(append(before, &stored)...); err == nil && len(stored) != len(hash) {
		err = store.ErrCorrupt
	}
	copy(hash[:], stored)
	return hash, err
}

// tokenKey reseals the key of the HMACs over access tokens, if there is one.
func (r *resealing) tokenKey() error {
	var text string
	err := r.One([]any{&text}, `SELECT value FROM setting WHERE name = 'token_key'`)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	var stored, key []byte
	if err == nil {
		stored, err = hex.DecodeString(text)
	}
	if err == nil {
		key, err = r.old.Open(stored, atrest.TokenKeyPlace)
	}
	if err == nil && len(key) != sha256.Size {
		err = fmt.Errorf("a key of %d bytes", len(key))
	}
	if err != nil {
		return fmt.Errorf("%w: the setting token_key is not what it was: %w", store.ErrCorrupt, err)
	}
	_, err = r.Exec(`UPDATE setting SET value = ? WHERE name = 'token_key'`,
		hex.EncodeToString(r.next.Keep(key, atrest.TokenKeyPlace)))
	return err
}
