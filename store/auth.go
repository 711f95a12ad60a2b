package store

import (
	"context"
	"crypto/hmac"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/projection"
)

// credential is the cached result for a valid API key or access token.
type credential struct {
	company     *Company
	fingerprint string
	grant       Grant
	// of an agent that has signed in, or ""
	agent, key string
	bound      bool // to the key
}

// Authenticate returns the caller that the API key or OAuth access token with this hash
// authenticates. It returns ErrNotFound if the hash is unknown or the credential has expired.
// Results are cached; a deletion takes effect before Credentials.DeleteKey or
// Credentials.DeleteClient returns.
//
// A credential is compared only by looking up its SHA-256, or an HMAC of that, in an index. The
// timing of the lookup reveals information about the hash of a guess, which does not help to find
// 256 random bits.
func (s Credentials) Authenticate(ctx context.Context, hash [32]byte, now time.Time) (Caller, error) {
	found, err := lookup(s.db, &s.db.credentials, hash, now, func() (credential, error) { return s.find(ctx, hash, now) })
	if err != nil {
		return Caller{}, fmt.Errorf("credential: %w", err)
	}
	if found.grant.expired(now) {
		return Caller{}, fmt.Errorf("credential has expired: %w", ErrNotFound)
	}
	by := Caller{
		Company: found.company, Credential: found.fingerprint, Role: found.grant.Role, Expires: found.grant.Expires, At: now,
		Agent: found.agent, Key: found.key, Bound: found.bound,
	}
	return by, s.stillAgent(ctx, by)
}

// stillAgent says of an agent that has signed in whether it is enabled and its key live:
// ErrNotFound.
func (s Credentials) stillAgent(ctx context.Context, by Caller) error {
	if by.Agent == "" {
		return nil
	}
	_, err := s.db.AgentKeys.Live(ctx, by, by.Agent, by.Key)
	if err == nil {
		err = s.db.Agents.Check(ctx, by, by.Agent)
	}
	if errors.Is(err, ErrDisabled) {
		err = fmt.Errorf("agent is disabled: %w", ErrNotFound)
	}
	return err
}

// Recheck reads from the database whether the credential with this hash is still valid, bypassing
// the cache. It returns ErrNotFound if it is not.
func (s Credentials) Recheck(ctx context.Context, hash [32]byte, now time.Time) error {
	found, err := s.find(ctx, hash, now)
	if err == nil && found.grant.expired(now) {
		err = ErrNotFound
	}
	if err == nil {
		err = s.stillAgent(ctx, Caller{Company: found.company, Agent: found.agent, Key: found.key, At: now})
	}
	return err
}

// credentialQuery finds a credential by the index of its hash, together with the ID of the newest
// control record about the API key or the token's client.
var credentialQuery = `
	SELECT company, id, NULL, fingerprint, last_used_at, role, expires_at, NULL, made_by, expires_at, NULL, '', '', 0, ` + latestOf("api_key.company", "'api-key:' || fingerprint") + `
	FROM api_key WHERE hash = ?1
	UNION ALL SELECT t.company, NULL, c.id, c.fingerprint, c.last_used_at, c.role, t.expires_at, c.client_id, c.made_by, c.expires_at, t.mac, '', '', 0, ` +
	latestOf("c.company", "'oauth-client:' || c.client_id") + `
	FROM oauth_token t JOIN oauth_client c ON c.id = t.client AND c.company = t.company WHERE t.hash = ?1
	UNION ALL SELECT t.company, NULL, NULL, 'agent-key:' || k.thumbprint, NULL, 'agent', t.expires_at, NULL, NULL, NULL, t.mac, k.agent_id, k.thumbprint, t.bound, NULL
	FROM oauth_token t JOIN agent_key k ON k.id = t.agent_key AND k.company = t.company WHERE t.hash = ?1`

// checkToken returns ErrNotFound, as for an unknown token, if the row of an access token was not
// written by the service.
func (s Credentials) checkToken(r *conn, row tokenRow, mac []byte) error {
	key, err := s.tokenKey(r)
	if err == nil && !hmac.Equal(row.mac(key), mac) {
		err = ErrNotFound
	}
	return err
}

// check compares the row of an API key or OAuth client with the control log. For an API key, hash
// must match the fingerprint in the row.
func (s Credentials) check(ctx context.Context, company *Company, clientID sql.NullString, latest sql.NullInt64, has projection.Credential, hash [32]byte) error {
	table, name := projection.TableClient, clientID.String
	if !clientID.Valid {
		table, name = projection.TableAPIKey, has.Fingerprint
		if presented := keys.Fingerprint(hash); presented != has.Fingerprint {
			return s.db.Tables.checked(company, &projection.Difference{Table: table, Row: name, Index: latest.Int64 & indexMask, What: "its hash is of another key"})
		}
	}
	return s.db.read(ctx, func(r *conn) error {
		l, err := r.controlRecord(company, latest)
		if err != nil {
			return s.db.Tables.noted(company, err)
		}
		return s.db.Tables.checked(company, l.Credential(table, name, has))
	})
}

// find reads a credential from the database. An access token has the fingerprint and role of its
// client.
func (s Credentials) find(ctx context.Context, hash [32]byte, now time.Time) (found credential, err error) {
	var number int64
	var key, client, expires, ownExpires, latest sql.NullInt64
	var used, clientID, madeBy sql.NullString
	var mac []byte
	err = s.db.read(ctx, func(r *conn) error {
		err := r.one([]any{&number, &key, &client, &found.fingerprint, &used, &found.grant.Role, &expires, &clientID, &madeBy, &ownExpires, &mac, &found.agent, &found.key, &found.bound, &latest},
			credentialQuery, s.db.secrets.Index(hash))
		switch {
		case err != nil:
		case client.Valid:
			err = s.checkToken(r, tokenRow{hash, number, clientID.String, expires.Int64}, mac)
		case found.agent != "":
			err = s.checkToken(r, tokenRow{hash, number, heldBy(found.key, found.bound), expires.Int64}, mac)
		}
		return err
	})
	if err != nil {
		return credential{}, err
	}
	found.grant.Expires = expiry(expires)
	if found.company, err = s.db.Companies.now(ctx, number); err != nil {
		return credential{}, err
	}
	if found.agent != "" {
		// the row is the service's, and who uses it looks at the key and the agent
		return found, nil
	}
	has := credentialRow(found.fingerprint, string(found.grant.Role), ownExpires, madeBy)
	if err := s.check(ctx, found.company, clientID, latest, has, hash); err != nil {
		return credential{}, err
	}
	if !found.grant.expired(now) {
		s.db.lastUsed.enqueue(credentialID{key.Int64, client.Int64}, chain.FormatTime(now.Truncate(time.Hour)), used.String)
	}
	return found, nil
}
