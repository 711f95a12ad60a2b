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
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/projection"
)

// Authenticate returns the caller that the API key or OAuth access token with this hash
// authenticates. It returns ErrNotFound if the hash is unknown or the credential has expired.
// Results are cached; a deletion takes effect before Credentials.DeleteKey or
// Credentials.DeleteClient returns.
//
// A credential is compared only by looking up its SHA-256, or an HMAC of that, in an index. The
// timing of the lookup reveals information about the hash of a guess, which does not help to find
// 256 random bits.
//
// A token that is bound to a key authenticates no caller without a proof: ErrBound. See
// AuthenticateBound.
func (s Credentials) Authenticate(ctx context.Context, hash [32]byte, now time.Time) (Caller, error) {
	return s.authenticate(ctx, hash, now, func(jkt string) error {
		if jkt != "" {
			return ErrBound
		}
		return nil
	})
}

// AuthenticateBound is Authenticate for an access token that is bound to a key (RFC 9449): prove
// reports whether the request proves possession of the key with a thumbprint, and its error is
// returned as it is. A credential that is bound to no key is ErrNotFound.
func (s Credentials) AuthenticateBound(ctx context.Context, hash [32]byte, now time.Time, prove func(jkt string) error) (Caller, error) {
	return s.authenticate(ctx, hash, now, func(jkt string) error {
		if jkt == "" {
			return fmt.Errorf("credential is bound to no key: %w", db.ErrNotFound)
		}
		return prove(jkt)
	})
}

// authenticate implements both. bound decides about the key to which the credential is bound, ""
// for none: without that there is no caller.
func (s Credentials) authenticate(ctx context.Context, hash [32]byte, now time.Time, bound func(jkt string) error) (Caller, error) {
	found, err := db.Lookup(s.found, hash, now, func() (credential, error) { return s.find(ctx, hash, now) })
	if err != nil {
		return Caller{}, fmt.Errorf("credential: %w", err)
	}
	if found.grant.expired(now) {
		return Caller{}, fmt.Errorf("credential has expired: %w", db.ErrNotFound)
	}
	by := found.caller(now)
	if err := s.stillAgent(ctx, &by); err != nil {
		return Caller{}, err
	}
	if err := bound(by.JKT); err != nil {
		return Caller{}, err
	}
	return by, nil
}

// Introspect returns the caller that an access token of the caller's company authenticates. What is
// no such token is not found, in the same way and the same time whatever else it is: ErrNotFound.
func (s Credentials) Introspect(ctx context.Context, by Caller, hash [32]byte) (Caller, error) {
	found, err := db.Lookup(s.introspected, tenantHash{by.Company.Chain, hash}, by.At, func() (credential, error) {
		found, _, err := s.read(ctx, hash, introspectionQuery, by.Company.Chain)
		if errors.Is(err, db.ErrNotFound) {
			return s.findFederated(ctx, hash, by.Company.Chain, by.At)
		}
		return found, err
	})
	switch {
	case err != nil:
		return Caller{}, fmt.Errorf("access token: %w", err)
	case found.grant.expired(by.At):
		return Caller{}, fmt.Errorf("access token has expired: %w", db.ErrNotFound)
	}
	token := found.caller(by.At)
	return token, s.stillAgent(ctx, &token)
}

// stillAgent says of an agent that has signed in whether it is enabled and its key live:
// ErrNotFound. It enters when the key ends.
func (s Credentials) stillAgent(ctx context.Context, by *Caller) error {
	if by.Agent == "" {
		return nil
	}
	var err error
	if by.Federation == "" {
		var key AgentKey
		key, err = s.agentKeys.Live(ctx, *by, by.Agent, by.Key)
		by.HolderExpires = key.ExpiresAt
	}
	if err == nil {
		err = s.agents.Check(ctx, *by, by.Agent)
	}
	if errors.Is(err, ErrDisabled) {
		err = fmt.Errorf("agent is disabled: %w", db.ErrNotFound)
	}
	return err
}

// Recheck reads from the database whether the credential with this hash is still valid, bypassing
// the cache. It returns ErrNotFound if it is not.
func (s Credentials) Recheck(ctx context.Context, hash [32]byte, now time.Time) error {
	found, err := s.find(ctx, hash, now)
	if err == nil && found.grant.expired(now) {
		err = db.ErrNotFound
	}
	if err == nil {
		err = s.stillAgent(ctx, &Caller{Company: found.company, Agent: found.agent, Key: found.key, Federation: found.federation, At: now})
	}
	return err
}

// keyQuery and tokenQuery find a credential by the index of its hash, that of a token or the one
// before it, together with the ID of the newest control record about the API key or the token's
// client.
var (
	keyQuery = `
	SELECT company, id, NULL, fingerprint, last_used_at, role, expires_at, NULL, made_by, expires_at, NULL, '', '', 0, '', '', '', NULL, NULL, ` + apiKeys.latest("api_key") + `
	FROM api_key WHERE hash = ?1`
	tokenQuery = func(which string) string {
		return `
	SELECT t.company, NULL, c.id, c.fingerprint, c.last_used_at, c.role, t.expires_at, c.client_id, c.made_by, c.expires_at, t.mac, '', '', 0, t.scope, coalesce(t.details, ''), coalesce(t.jkt, ''), c.jwks, c.jwks_uri, ` +
			clients.latest("c") + `
	FROM oauth_token t JOIN oauth_client c ON c.id = t.client AND c.company = t.company WHERE ` + which + `
	UNION ALL SELECT t.company, NULL, NULL, 'agent-key:' || k.thumbprint, NULL, 'agent', t.expires_at, NULL, NULL, NULL, t.mac, k.agent_id, k.thumbprint, t.bound, t.scope, coalesce(t.details, ''), '', NULL, NULL, NULL
	FROM oauth_token t JOIN agent_key k ON k.id = t.agent_key AND k.company = t.company WHERE ` + which
	}
	credentialQuery    = keyQuery + " UNION ALL " + tokenQuery("t.hash IN (?1, ?2)")
	introspectionQuery = tokenQuery("t.hash IN (?1, ?2) AND t.company = ?3")
)

// checkToken returns ErrNotFound, as for an unknown token, if the row of an access token was not
// written by the service.
func (s Credentials) checkToken(r *db.Conn, row tokenRow, mac []byte) error {
	key, err := s.keys.tokenKey(r)
	if err == nil && !hmac.Equal(row.mac(key), mac) {
		err = db.ErrNotFound
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
			return s.db.checked(company, &projection.Difference{Table: table, Row: name, Index: latest.Int64 & db.IndexMask, What: "its hash is of another key"})
		}
	}
	return s.db.Read(ctx, func(r *db.Conn) error {
		return s.db.compared(r, company, latest, func(l *projection.Latest) *projection.Difference { return l.Credential(table, name, has) })
	})
}

// find reads a credential from the database, and records its use. An access token has the
// fingerprint and role of its client.
func (s Credentials) find(ctx context.Context, hash [32]byte, now time.Time) (credential, error) {
	found, use, err := s.read(ctx, hash, credentialQuery)
	if errors.Is(err, db.ErrNotFound) {
		return s.findFederated(ctx, hash, anyCompany, now)
	}
	if err == nil && use.id != (ledger.CredentialID{}) && !found.grant.expired(now) {
		s.db.LastUsed().Enqueue(use.id, chain.FormatTime(now.Truncate(time.Hour)), use.last)
	}
	return found, err
}

// lastUse is when a credential was last used, as far as it is written.
type lastUse struct {
	id   ledger.CredentialID // of none for an agent
	last string
}

// read finds a credential by a query and checks its row.
func (s Credentials) read(ctx context.Context, hash [32]byte, query string, more ...any) (found credential, use lastUse, err error) {
	var number int64
	var key, client, expires, ownExpires, latest sql.NullInt64
	var used, clientID, madeBy, jwks, jwksURI sql.NullString
	var limits string
	var mac []byte
	var bound bool
	err = s.db.Read(ctx, func(r *db.Conn) error {
		err := r.One([]any{
			&number, &key, &client, &found.fingerprint, &used, &found.grant.Role, &expires, &clientID, &madeBy, &ownExpires,
			&mac, &found.agent, &found.key, &bound, &found.scope, &limits, &found.jkt, &jwks, &jwksURI, &latest,
		}, query, append([]any{s.db.Secrets().Index(hash), s.db.Secrets().TokenIndex(hash)}, more...)...)
		row := tokenRow{hash, number, clientID.String, expires.Int64, found.scope, found.jkt, limits}
		if found.agent != "" {
			row.holder = heldBy(found.key, bound)
		}
		if err == nil && (client.Valid || found.agent != "") {
			err = s.checkToken(r, row, mac)
		}
		if err == nil {
			found.details, err = storedDetails(limits)
		}
		return err
	})
	if err != nil {
		return credential{}, use, err
	}
	found.grant.Expires, found.client = expiry(expires), clientID.String
	if found.company, err = s.companies.now(ctx, number); err != nil {
		return credential{}, use, err
	}
	if found.agent != "" {
		if bound {
			found.jkt = found.key
		}
		// the row is the service's, and who uses it looks at the key and the agent
		return found, use, nil
	}
	found.holderExpires = expiry(ownExpires)
	has := credentialRow(found.fingerprint, Grant{found.grant.Role, found.holderExpires}, madeBy.String)
	has.JWKS, has.JWKSURI = jwks.String, jwksURI.String
	if err := s.check(ctx, found.company, clientID, latest, has, hash); err != nil {
		return credential{}, use, err
	}
	return found, lastUse{ledger.CredentialID{Key: key.Int64, Client: client.Int64}, used.String}, nil
}
