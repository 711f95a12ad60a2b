package store

import (
	"crypto/ed25519"

	"attestd/chain/tlog"
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

// Logs returns both logs of the company.
func (c *Company) Logs() []db.Log { return []db.Log{c.Actions, c.Control} }

// Log returns the log of the company with a name.
func (c *Company) Log(name db.LogName) db.Log {
	if name == db.Control {
		return c.Control
	}
	return c.Actions
}

// SignCheckpoint signs a checkpoint of one of the company's logs.
func (c *Company) SignCheckpoint(l db.Log, t tlog.Tree) ([]byte, error) {
	return tlog.Checkpoint{Origin: l.Origin, Tree: t}.Sign(c.key)
}

// Complete reports whether the control log covers every row of the company that the service obeys.
func (c *Company) Complete() bool { return c.complete }

// installation is the owner of the log of the companies, with its names and chains alone.
func installation() *Company {
	c := &Company{Chain: db.Installation, ID: db.InstallationID}
	c.Actions.Chain, c.Control.Chain = db.Actions.ChainID(db.Installation), CompanyLogChain
	return c
}

// theDatabase replaces the company of a difference that concerns all of them.
var theDatabase = &Company{ID: db.InstallationID}

// CompanyLogChain is the chain ID of the log of the companies.
const CompanyLogChain = -db.Installation

// CompanyListed is the action of the records in the log of the companies: a company was registered,
// or existed before the log was created.
const CompanyListed ControlAction = "company.listed"
