package store

import (
	"attestd/chain/tlog"
	"attestd/store/db"
)

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
