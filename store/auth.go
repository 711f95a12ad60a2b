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
	expires int64     // Unix milliseconds
	read    time.Time // when the file said so
}

// remembered is how long a credential is taken as valid without asking the file: a deletion by this process counts at once, and
// one by another process (a tool at the file) after this.
const remembered = time.Second

// Authenticate finds the company whose API key or OAuth access token credential is; ErrNotFound when it is neither, is deleted or has expired.
// Answers are cached; a deletion takes effect before DeleteKey returns.
//
// A credential is compared by nothing but the lookup of its SHA-256 in an index. How long that takes tells of the hash of a guess, from
// which no way leads to 256 random bits.
func (s *Store) Authenticate(ctx context.Context, secret string, now time.Time) (*Company, error) {
	hash := keys.HashSecret(secret)
	found, ok := s.credentials.get(hash)
	if age := now.Sub(found.read); !ok || age < 0 || age >= remembered {
		var err error
		if found, err = s.findCredential(ctx, hash, now); err != nil {
			return nil, fmt.Errorf("credential: %w", err)
		}
	}
	if now.UnixMilli() >= found.expires {
		return nil, fmt.Errorf("access token has expired: %w", ErrNotFound)
	}
	return found.company, nil
}

func (s *Store) findCredential(ctx context.Context, hash [32]byte, now time.Time) (credential, error) {
	generation := s.credentials.now()
	found := credential{read: now, expires: math.MaxInt64}
	var number int64
	var expires sql.NullInt64
	err := s.read(ctx, func(r *conn) error {
		return r.one([]any{&number, &expires}, `SELECT company, NULL FROM api_key WHERE hash = ?1
			UNION ALL SELECT company, expires_at FROM oauth_token WHERE hash = ?1`, hash[:])
	})
	if err != nil {
		return credential{}, err
	}
	if expires.Valid {
		found.expires = expires.Int64
	}
	if found.company, err = s.CompanyOfChain(ctx, number); err != nil {
		return credential{}, err
	}
	s.credentials.put(generation, hash, found)
	return found, nil
}
