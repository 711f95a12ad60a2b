package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"iter"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/ledger"
)

// Credentials are API keys, OAuth clients and their access tokens.
type Credentials struct {
	db        *base
	keys      rowKeys
	companies companyCache
	agents    Agents
	agentKeys AgentKeys
	credentialCaches

	revoked *db.Cache[chain.Hash, db.Dated[bool]]
	clients *db.Cache[string, db.Dated[oauthSecret]]
	// of which tokens of agents are that have signed in by one
	federations Federations
}

// Credential is an API key or an OAuth client without its secret.
type Credential struct {
	Kind        string // KindAPIKey or KindOAuthClient
	Fingerprint string
	ClientID    string // "" for an API key
	Label       *string
	CreatedAt   string
	// fingerprint of the creator; "" for a first key and for credentials older than schema 2
	MadeBy     string
	LastUsedAt string // rounded down to the hour
	Role       Role
	ExpiresAt  string // "" for never

	id   int64
	rank int // order of the kinds: keys come before clients
}

const (
	KindAPIKey      = "apiKey"
	KindOAuthClient = "oauthClient"
)

// List yields the API keys and then the OAuth clients of the caller's company, each in the order of
// creation. If madeBy is a fingerprint, List yields only credentials that this credential created.
func (s Credentials) List(ctx context.Context, by Caller, madeBy string) iter.Seq2[Credential, error] {
	scan := func(rows *sql.Rows) (c Credential, err error) {
		var client, made, used sql.NullString
		var expires sql.NullInt64
		err = rows.Scan(&c.rank, &c.id, &c.Fingerprint, &client, &c.Label, &c.CreatedAt, &made, &used, &c.Role, &expires)
		if end := expiry(expires); !end.IsZero() {
			c.ExpiresAt = chain.FormatTime(end)
		}
		c.Kind = KindAPIKey
		id := ledger.CredentialID{Key: c.id}
		if c.rank == 1 {
			c.Kind, id = KindOAuthClient, ledger.CredentialID{Client: c.id}
		}
		c.ClientID, c.MadeBy, c.LastUsedAt = client.String, made.String, s.db.LastUsed().Last(id, used.String)
		return c, err
	}
	return db.List(ctx, s.db.DB, "credentials", scan, `SELECT * FROM (
		SELECT 0 AS rank, id, fingerprint, NULL, label, created_at, made_by, last_used_at, role, expires_at FROM api_key WHERE company = ?1
		UNION ALL SELECT 1, id, fingerprint, client_id, NULL, created_at, made_by, last_used_at, role, expires_at FROM oauth_client WHERE company = ?1) AS credential
		WHERE (rank, id) > (?2, ?3) AND (?4 = '' OR made_by = ?4) ORDER BY rank, id`,
		func(last Credential) []any { return []any{by.Company.Chain, last.rank, last.id, madeBy} })
}

// NonceKey returns a key that only the servers of the database have, for nonces that need no stored
// state.
func (s Credentials) NonceKey(ctx context.Context) ([]byte, error) {
	key, err := s.keys.sharedKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("key of nonces: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("DPoP nonce"))
	return mac.Sum(nil), nil
}
