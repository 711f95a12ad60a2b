package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"iter"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/db"
	"attestd/store/projection"
)

// OAuthClient is a client. Its secret is known only when it is created.
type OAuthClient struct {
	ID        string
	CreatedAt string
	ClientKeys

	id int64
}

// storedClient is a client as it is stored.
type storedClient struct {
	OAuthClient
	company     int64
	hash        []byte // of the secret, or an HMAC of that
	madeBy      string // fingerprint of the credential that created it
	grant       Grant
	fingerprint string // of the secret
}

var clients = right[storedClient, projection.Credential]{
	table: projection.TableClient, subject: "oauth-client:", title: "client_id", order: "id",
	columns: func(o *storedClient) []column {
		return []column{
			rowID(&o.id), plain("company", &o.company),
			plain("client_id", &o.ID).as("clientId"),
			plain("secret_hash", &o.hash),
			plain("created_at", &o.CreatedAt),
			optional("made_by", &o.madeBy),
			plain("role", &o.grant.Role).as("role"),
			end("expires_at", &o.grant.Expires).as("expiresAt"),
			plain("fingerprint", &o.fingerprint).as("fingerprint"),
			optional("jwks", &o.JWKS).asJSON("jwks").ifAny(),
			optional("jwks_uri", &o.JWKSURI).as("jwksUri").ifAny(),
		}
	},
	row: func(o *storedClient) projection.Credential {
		has := credentialRow(o.fingerprint, o.grant, o.madeBy)
		has.JWKS, has.JWKSURI = o.JWKS, o.JWKSURI
		return has
	},
	wrong: func(s *base, _ *Company, o *storedClient) string {
		if !s.Sealing().HasLookup() && !isHashOf(o.hash, o.fingerprint) {
			return "its hash is of another secret"
		}
		return ""
	},
}

// isHashOf reports whether a stored SHA-256 is that of the secret with a fingerprint.
func isHashOf(hash []byte, fingerprint string) bool {
	return len(hash) == sha256.Size && keys.Fingerprint([sha256.Size]byte(hash)) == fingerprint
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
	secret = keys.NewSecret("cs")
	hash := keys.HashSecret(secret)
	stored := storedClient{OAuthClient{ID: "cc_" + rand.Text(), CreatedAt: chain.FormatTime(by.At), ClientKeys: has}, by.Company.Chain,
		s.db.Secrets().Index(hash), by.Credential, g, keys.Fingerprint(hash)}
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := checkCount(w, most, `SELECT count(*) FROM oauth_client WHERE company = ?`, by.Company.Chain); err != nil {
			return nil, err
		}
		_, err := clients.insert(w, &stored, "")
		return []controlEvent{clients.created(OAuthClientCreated, &stored, nil)}, err
	})
	if err != nil {
		return OAuthClient{}, "", fmt.Errorf("create OAuth client: %w", err)
	}
	return stored.OAuthClient, secret, nil
}

// Clients yields the clients of the caller's company in the order of creation.
func (s Credentials) Clients(ctx context.Context, by Caller) iter.Seq2[OAuthClient, error] {
	scan := func(rows *sql.Rows) (OAuthClient, error) {
		o, err := clients.scan(rows)
		return o.OAuthClient, err
	}
	return db.List(ctx, s.db.DB, "OAuth clients", scan, "SELECT "+clients.list("oauth_client")+" FROM oauth_client WHERE company = ? AND id > ? ORDER BY id",
		func(last OAuthClient) []any { return []any{by.Company.Chain, last.id} })
}

// DeleteClient deletes a client of the caller's company with all its access tokens. It returns the
// fingerprint of the client, if known even with an error, and ErrNotFound for an unknown client.
func (s Credentials) DeleteClient(ctx context.Context, by Caller, clientID string) (fingerprint string, err error) {
	// Forget them whatever the outcome. The next use of the client, and of any token, reads the
	// database.
	defer s.forgetTokens()
	defer s.clients.Forget(clientID)
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		// The foreign key deletes its tokens.
		if err := w.One([]any{&fingerprint}, `DELETE FROM oauth_client WHERE company = ? AND client_id = ?
			RETURNING fingerprint`, by.Company.Chain, clientID); err != nil {
			return nil, err
		}
		details := map[string]any{"clientId": clientID, "fingerprint": fingerprint}
		return []controlEvent{{OAuthClientDeleted, clients.about(clientID), details}}, nil
	})
	if err != nil {
		err = fmt.Errorf("delete OAuth client: %w", err)
	}
	return fingerprint, err
}
