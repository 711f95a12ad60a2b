package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// JWTs that the service has signed as access tokens have no row. Those that were revoked have,
// until they would have ended.

// RevokeJWT records that the access token with a jti of the caller's company counts no more. No
// server of the database accepts it when RevokeJWT returns.
func (s Credentials) RevokeJWT(ctx context.Context, by Caller, jti string, ends time.Time) error {
	name := revokedName(by, jti)
	defer s.revoked.Forget(name)
	err := s.db.Write(ctx, func(w *db.Conn) error {
		_, err := w.Exec(`INSERT INTO revoked_token (name, expires_at) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name[:], ends.UnixMilli())
		return err
	})
	if err != nil {
		return fmt.Errorf("revoke access token: %w", err)
	}
	s.revoked.Forget(name)
	s.db.WaitPropagation(ctx)
	return nil
}

// IsRevokedJWT reports whether RevokeJWT has recorded an access token of the caller's company.
func (s Credentials) IsRevokedJWT(ctx context.Context, by Caller, jti string) (bool, error) {
	name := revokedName(by, jti)
	revoked, err := db.Lookup(s.revoked, name, by.At, func() (is bool, err error) {
		err = s.db.Read(ctx, func(r *db.Conn) error {
			var one int64
			err := r.One([]any{&one}, `SELECT 1 FROM revoked_token WHERE name = ?`, name[:])
			if is = err == nil; errors.Is(err, db.ErrNotFound) {
				err = nil
			}
			return err
		})
		return is, err
	})
	if err != nil {
		err = fmt.Errorf("access token: %w", err)
	}
	return revoked, err
}

func revokedName(by Caller, jti string) chain.Hash {
	return sha256.Sum256([]byte(strconv.FormatInt(by.Company.Chain, 10) + "\n" + jti))
}
