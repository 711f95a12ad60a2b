package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"attestd/crypto/keys"
)

// credential is what is remembered of a valid API key or access token.
type credential struct {
	company *Company
	expires int64 // Unix milliseconds
}

// Authenticate finds the company whose API key or OAuth access token credential is; ErrNotFound when it is neither, is deleted or has expired.
// Answers are cached; a deletion takes effect before DeleteKey returns.
//
// A credential is compared by nothing but the lookup of its SHA-256 in an index. How long that takes tells of the hash of a guess, from
// which no way leads to 256 random bits.
func (s *Store) Authenticate(ctx context.Context, secret string, now time.Time) (*Company, error) {
	hash := keys.HashSecret(secret)
	found, err := lookup(&s.credentials, hash, now, func() (credential, error) { return s.findCredential(ctx, hash) })
	if err != nil {
		return nil, fmt.Errorf("credential: %w", err)
	}
	if now.UnixMilli() >= found.expires {
		return nil, fmt.Errorf("access token has expired: %w", ErrNotFound)
	}
	return found.company, nil
}

func (s *Store) findCredential(ctx context.Context, hash [32]byte) (found credential, err error) {
	var number int64
	var expires sql.NullInt64
	err = s.read(ctx, func(r *conn) error {
		return r.one([]any{&number, &expires}, `SELECT company, NULL FROM api_key WHERE hash = ?1
			UNION ALL SELECT company, expires_at FROM oauth_token WHERE hash = ?1`, hash[:])
	})
	if err != nil {
		return credential{}, err
	}
	found.expires = math.MaxInt64
	if expires.Valid {
		found.expires = expires.Int64
	}
	found.company, err = s.CompanyOfChain(ctx, number)
	return found, err
}
