package store

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// clientSecret reads the state of a client, which never changes, so that it can be cached. An
// unknown client has an empty hash.
func (s Credentials) clientSecret(ctx context.Context, clientID string, now time.Time) (oauthSecret, error) {
	o, err := db.Lookup(s.clients, clientID, now, func() (o oauthSecret, err error) {
		var found known[storedClient]
		err = s.db.Read(ctx, func(r *db.Conn) (err error) {
			found, err = clients.knownOne(r, "client_id = ?", clientID)
			return err
		})
		if err != nil {
			return o, err
		}
		has := &found.row
		o.hash, o.fingerprint, o.grant, o.keys = has.hash, has.fingerprint, has.grant, has.ClientKeys
		if o.company, err = s.companies.now(ctx, has.company); err == nil {
			err = s.check(ctx, o.company, sql.NullString{String: clientID, Valid: true}, found.latest, clients.row(has), [32]byte{})
		}
		return o, err
	})
	if errors.Is(err, db.ErrNotFound) {
		return oauthSecret{}, nil
	}
	return o, err
}

// AuthenticateClient returns the caller that a client is with its secret, which it compares in
// constant time. ErrBadClient means an unknown client or a wrong secret; the company of a known one
// is returned with it.
func (s Credentials) AuthenticateClient(ctx context.Context, clientID, secret string, now time.Time) (Caller, error) {
	client, err := s.clientSecret(ctx, clientID, now)
	if err != nil {
		return Caller{}, fmt.Errorf("OAuth client: %w", err)
	}
	hash := keys.HashSecret(secret)
	if subtle.ConstantTimeCompare(client.hash, s.db.Secrets().Index(hash)) != 1 || client.keys != (ClientKeys{}) || client.grant.expired(now) {
		return Caller{Company: client.company}, ErrBadClient
	}
	if client.fingerprint != keys.Fingerprint(hash) {
		err = s.db.checked(client.company,
			&projection.Difference{Table: projection.TableClient, Row: clientID, Index: -1,
				What: "its hash is of another secret than it names"})
		if err != nil {
			return Caller{}, fmt.Errorf("OAuth client: %w", err)
		}
	}
	return client.caller(clientID, now), nil
}

// ClientKeys returns the caller that a client is which shows that it holds one of its keys, and
// those. ErrBadClient means an unknown client or one without keys; see AuthenticateClient.
func (s Credentials) ClientKeys(ctx context.Context, clientID string, now time.Time) (by Caller, has ClientKeys, err error) {
	client, err := s.clientSecret(ctx, clientID, now)
	switch {
	case err != nil:
		return Caller{}, has, fmt.Errorf("OAuth client: %w", err)
	case client.keys == (ClientKeys{}) || client.grant.expired(now):
		return Caller{Company: client.company}, has, ErrBadClient
	}
	return client.caller(clientID, now), client.keys, nil
}

// CheckClient returns ErrBadClient unless a client is there.
func (s Credentials) CheckClient(ctx context.Context, clientID string, now time.Time) error {
	client, err := s.clientSecret(ctx, clientID, now)
	if err == nil && (client.company == nil || client.grant.expired(now)) {
		err = ErrBadClient
	}
	return err
}
