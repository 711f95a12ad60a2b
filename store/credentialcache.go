package store

import (
	"crypto/sha256"
	"time"

	"attestd/crypto/cred/details"
	"attestd/store/db"
)

// credentialCaches are what is known of credentials, which also other groups make it forget.
type credentialCaches struct {
	found *db.Cache[[sha256.Size]byte, db.Dated[credential]] // by hash
	// access tokens that were asked about, for each company its own
	introspected *db.Cache[tenantHash, db.Dated[credential]]
	// when what a JWT was asked for with was made, "" where it is gone
	requesters *db.Cache[owned, db.Dated[string]]
}

// credential is the cached result for a valid API key or access token.
type credential struct {
	company     *Company
	fingerprint string
	grant       Grant
	client      string // ID of the client whose token it is, or ""
	// of an agent that has signed in, or ""
	agent, key string
	// by which it has signed in without a key of its own, or "", and when that was made
	federation, federatedSince string
	delegation                 string // of the person for whom it does, or ""
	jkt                        string // thumbprint of the key that it is bound to, or ""
	scope                      Scope
	details                    details.Details
	// see Caller.HolderExpires; of an agent's key not known here
	holderExpires time.Time
}

func (c *credential) caller(now time.Time) Caller {
	return Caller{
		Company: c.company, Credential: c.fingerprint, Role: c.scope.within(c.grant.Role), Expires: c.grant.Expires, At: now,
		Client: c.client, Agent: c.agent, Key: c.key, Federation: c.federation, Delegation: c.delegation, JKT: c.jkt, Scope: c.scope, Details: c.details,
		HolderExpires: c.holderExpires, FederatedSince: c.federatedSince,
	}
}

// tenantHash is the hash of a token that one company may know.
type tenantHash struct {
	company int64
	hash    [32]byte
}

// forgetTokens makes the next use of any credential read the database.
func (s credentialCaches) forgetTokens() {
	s.found.Forget()
	s.introspected.Forget()
}

// oauthSecret is the stored state of a client, for checking its secret.
type oauthSecret struct {
	company     *Company
	hash        []byte
	fingerprint string // of the secret
	grant       Grant
	keys        ClientKeys
}

func (o *oauthSecret) caller(clientID string, now time.Time) Caller {
	return Caller{
		Company: o.company, Credential: o.fingerprint, Role: o.grant.Role, Client: clientID,
		Expires: o.grant.Expires, HolderExpires: o.grant.Expires, At: now,
	}
}

// ClientKeys are the public keys of a client without a secret; of one with a secret both are "".
type ClientKeys struct {
	JWKS    string // a JWK set in the form of RFC 8785
	JWKSURI string // or where it is
}
