package store

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
)

// OAuthClient is a client; its secret is only known when it is made.
type OAuthClient struct {
	ID        string `json:"clientId"`
	CreatedAt string `json:"createdAt"`
}

// CreateOAuthClient makes a client of a company, and its secret, of which only the hash is kept.
func (s *Store) CreateOAuthClient(ctx context.Context, c *Company, now time.Time) (client OAuthClient, secret string, err error) {
	client = OAuthClient{ID: "cc_" + rand.Text(), CreatedAt: chain.FormatTime(now)}
	secret = keys.NewSecret("cs")
	hash := keys.HashSecret(secret)
	err = s.write(ctx, func(w *conn) error {
		_, err := w.exec(`INSERT INTO oauth_client (company, client_id, secret_hash, created_at) VALUES (?, ?, ?, ?)`,
			c.Chain, client.ID, hash[:], client.CreatedAt)
		return err
	})
	if err != nil {
		return OAuthClient{}, "", fmt.Errorf("create OAuth client: %w", err)
	}
	return client, secret, nil
}

// OAuthClients returns the clients of a company in the order of their creation.
func (s *Store) OAuthClients(ctx context.Context, c *Company) ([]OAuthClient, error) {
	var all []OAuthClient
	err := s.read(ctx, func(r *conn) error {
		return r.each(func(rows *sql.Rows) error {
			var o OAuthClient
			err := rows.Scan(&o.ID, &o.CreatedAt)
			all = append(all, o)
			return err
		}, `SELECT client_id, created_at FROM oauth_client WHERE company = ? ORDER BY id`, c.Chain)
	})
	if err != nil {
		return nil, fmt.Errorf("list OAuth clients: %w", err)
	}
	return all, nil
}

// oauthSecret is what a client's secret is compared with.
type oauthSecret struct {
	company int64
	hash    []byte
}

// oauthSecret finds the secret of a client, which never changes: the hash of one that is unknown is empty.
func (s *Store) oauthSecret(ctx context.Context, clientID string, now time.Time) (oauthSecret, error) {
	o, err := lookup(&s.clients, clientID, now, func() (o oauthSecret, err error) {
		err = s.read(ctx, func(r *conn) error {
			return r.one([]any{&o.company, &o.hash}, `SELECT company, secret_hash FROM oauth_client WHERE client_id = ?`, clientID)
		})
		return o, err
	})
	if errors.Is(err, ErrNotFound) {
		return oauthSecret{}, nil
	}
	return o, err
}

// purgeEvery is how often expired access tokens are taken out of the file; they are refused from the moment they expire.
const purgeEvery = time.Minute

// IssueOAuthToken checks a client's secret in constant time and issues an access token (prefix oauth_), kept as its hash.
// ErrBadClient.
func (s *Store) IssueOAuthToken(ctx context.Context, clientID, secret string, lifetime time.Duration, now time.Time) (token string, err error) {
	client, err := s.oauthSecret(ctx, clientID, now)
	if err != nil {
		return "", fmt.Errorf("issue access token: %w", err)
	}
	given := keys.HashSecret(secret)
	if subtle.ConstantTimeCompare(client.hash, given[:]) != 1 {
		return "", ErrBadClient
	}
	token = keys.NewSecret("oauth")
	hash := keys.HashSecret(token)
	err = s.write(ctx, func(w *conn) error {
		if now.Sub(s.purged) >= purgeEvery { // the writer runs one job at a time
			if _, err := w.exec(`DELETE FROM oauth_token WHERE expires_at <= ?`, now.UnixMilli()); err != nil {
				return err
			}
			s.purged = now
		}
		_, err := w.exec(`INSERT INTO oauth_token (hash, company, expires_at) VALUES (?, ?, ?)`,
			hash[:], client.company, now.Add(lifetime).UnixMilli())
		return err
	})
	if err != nil {
		return "", fmt.Errorf("issue access token: %w", err)
	}
	return token, nil
}
