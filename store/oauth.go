package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"iter"

	"attestd/chain"
	"attestd/crypto/keys"
)

// OAuthClient is a client. Its secret is known only when it is created.
type OAuthClient struct {
	ID        string
	CreatedAt string
	ClientKeys

	id int64
}

// ClientKeys are the public keys of a client without a secret; of one with a secret both are "".
type ClientKeys struct {
	JWKS    string // a JWK set in the form of RFC 8785
	JWKSURI string // or where it is
}

// CreateClient creates a client of the caller's company and its secret, of which only the hash is
// stored. It returns ErrTooMany if the company has most clients.
func (s Credentials) CreateClient(
	ctx context.Context, by Caller, g Grant, most int,
) (client OAuthClient, secret string, err error) {
	return s.createClient(ctx, by, g, ClientKeys{}, most)
}

// CreateKeyClient creates a client that shows that it holds the private key of one of its public
// ones. It has no secret that anybody knows.
func (s Credentials) CreateKeyClient(
	ctx context.Context, by Caller, g Grant, has ClientKeys, most int,
) (client OAuthClient, err error) {
	client, _, err = s.createClient(ctx, by, g, has, most)
	return client, err
}

func (s Credentials) createClient(
	ctx context.Context, by Caller, g Grant, has ClientKeys, most int,
) (client OAuthClient, secret string, err error) {
	client = OAuthClient{ID: "cc_" + rand.Text(), CreatedAt: chain.FormatTime(by.At), ClientKeys: has}
	secret = keys.NewSecret("cs")
	hash := keys.HashSecret(secret)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM oauth_client WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		details := grantDetails(keys.Fingerprint(hash), g)
		details["clientId"] = client.ID
		if has.JWKS != "" {
			details["jwks"] = json.RawMessage(has.JWKS)
		}
		if has.JWKSURI != "" {
			details["jwksUri"] = has.JWKSURI
		}
		_, err := w.exec(`INSERT INTO oauth_client (company, client_id, secret_hash, created_at, made_by, role, expires_at, fingerprint, jwks, jwks_uri)
			VALUES (?, ?, ?, ?, nullif(?, ''), ?, ?, ?, nullif(?, ''), nullif(?, ''))`,
			by.Company.Chain, client.ID, s.db.secrets.Index(hash), client.CreatedAt, by.Credential, g.Role, g.expiresAt(), keys.Fingerprint(hash), has.JWKS, has.JWKSURI)
		return []controlEvent{{OAuthClientCreated, subjectClient(client.ID), details}}, err
	})
	if err != nil {
		return OAuthClient{}, "", fmt.Errorf("create OAuth client: %w", err)
	}
	return client, secret, nil
}

// Clients yields the clients of the caller's company in the order of creation.
func (s Credentials) Clients(ctx context.Context, by Caller) iter.Seq2[OAuthClient, error] {
	scan := func(rows *sql.Rows) (o OAuthClient, err error) {
		err = rows.Scan(&o.id, &o.ID, &o.CreatedAt, &o.JWKS, &o.JWKSURI)
		return o, err
	}
	return list(ctx, s.db, "OAuth clients", scan,
		`SELECT id, client_id, created_at, coalesce(jwks, ''), coalesce(jwks_uri, '') FROM oauth_client WHERE company = ? AND id > ? ORDER BY id`,
		func(last OAuthClient) []any { return []any{by.Company.Chain, last.id} })
}

// DeleteClient deletes a client of the caller's company with all its access tokens. It returns the
// fingerprint of the client, if known even with an error, and ErrNotFound for an unknown client.
func (s Credentials) DeleteClient(ctx context.Context, by Caller, clientID string) (fingerprint string, err error) {
	// Forget them whatever the outcome. The next use of the client, and of any token, reads the
	// database.
	defer s.db.forgetTokens()
	defer s.db.clients.forget(clientID)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		// The foreign key deletes its tokens.
		if err := w.one([]any{&fingerprint}, `DELETE FROM oauth_client WHERE company = ? AND client_id = ?
			RETURNING fingerprint`, by.Company.Chain, clientID); err != nil {
			return nil, err
		}
		details := map[string]any{"clientId": clientID, "fingerprint": fingerprint}
		return []controlEvent{{OAuthClientDeleted, subjectClient(clientID), details}}, nil
	})
	if err != nil {
		err = fmt.Errorf("delete OAuth client: %w", err)
	}
	return fingerprint, err
}
