package store

import (
	"crypto/ed25519"

	"attestd/crypto/cred"
	"attestd/store/db"
)

// Company is a tenant. Methods that access a tenant's data require it as an argument, so that no
// caller can omit the tenant. A Company is shared and immutable. It is small, because thousands are
// cached. A key rotation creates a new Company value.
type Company struct {
	Chain        int64 // its number, and the ID of its action chain
	ID           string
	RegisteredAt string
	Actions      db.Log
	Control      db.Log
	Issuer       *cred.Issuer // with the keys at the time of the lookup

	complete bool               // the control log covers every row that the service obeys
	key      ed25519.PrivateKey // current signing key
}

// ControlChain returns the chain ID of a company's control log.
func ControlChain(company int64) int64 { return db.Control.ChainID(company) }
