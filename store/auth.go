package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
)

// credential is what is remembered of a valid API key or access token.
type credential struct {
	company     *Company
	fingerprint string
	grant       Grant
}

// Authenticate finds the caller who presents the API key or OAuth access token with this hash; ErrNotFound when it is neither, is deleted or
// has expired. Answers are cached; a deletion takes effect before DeleteKey or DeleteOAuthClient returns.
//
// A credential is compared by nothing but the lookup of its SHA-256, or of an HMAC of that, in an index. How long that takes tells of the hash of a guess, from
// which no way leads to 256 random bits.
func (s *Store) Authenticate(ctx context.Context, hash [32]byte, now time.Time) (Caller, error) {
	found, err := lookup(s, &s.credentials, hash, now, func() (credential, error) { return s.findCredential(ctx, hash, now) })
	if err != nil {
		return Caller{}, fmt.Errorf("credential: %w", err)
	}
	if found.grant.expired(now) {
		return Caller{}, fmt.Errorf("credential has expired: %w", ErrNotFound)
	}
	return Caller{Company: found.company, Credential: found.fingerprint, Role: found.grant.Role, Expires: found.grant.Expires, At: now}, nil
}

// Recheck asks the database whether the credential with this hash is still good: ErrNotFound.
func (s *Store) Recheck(ctx context.Context, hash [32]byte, now time.Time) error {
	found, err := s.findCredential(ctx, hash, now)
	if err == nil && found.grant.expired(now) {
		err = ErrNotFound
	}
	return err
}

// findCredential asks the file. An access token acts for its client, and so has the client's fingerprint and role; one that was issued
// before the file knew of clients has its own fingerprint, and may do everything.
func (s *Store) findCredential(ctx context.Context, hash [32]byte, now time.Time) (found credential, err error) {
	var number int64
	var key, client, expires sql.NullInt64
	var fingerprint, used sql.NullString
	err = s.read(ctx, func(r *conn) error {
		return r.one([]any{&number, &key, &client, &fingerprint, &used, &found.grant.Role, &expires}, `
			SELECT company, id, NULL, fingerprint, last_used_at, role, expires_at FROM api_key WHERE hash = ?1
			UNION ALL SELECT t.company, NULL, c.id, c.fingerprint, c.last_used_at, coalesce(c.role, 'admin'), t.expires_at
			FROM oauth_token t LEFT JOIN oauth_client c ON c.id = t.client WHERE t.hash = ?1`, s.secrets.index(hash))
	})
	if err != nil {
		return credential{}, err
	}
	found.grant.Expires = expiry(expires)
	found.fingerprint = cmp.Or(fingerprint.String, keys.Fingerprint(hash))
	if found.company, err = s.companyNow(ctx, number); err != nil {
		return credential{}, err
	}
	if !found.grant.expired(now) {
		s.uses.note(credentialID{key.Int64, client.Int64}, chain.FormatTime(now.Truncate(time.Hour)), used.String)
	}
	return found, nil
}
