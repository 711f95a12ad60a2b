package store

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
)

// LogName names one of the two logs of a company.
type LogName string

const (
	// what was done in the company's name: the chain of the specification
	Actions LogName = "actions"
	Control LogName = "control" // what was changed in the service itself
)

// Cosigned stands for a log of somebody else in a Behind.
const Cosigned LogName = "cosigned"

// ChainID is the number of a company's chain. It says company and log: that of the actions is the
// company's own, so that they keep the rows that they have had since there was one log only, and
// that of control is its negative. logOf reads it.
func (n LogName) ChainID(company int64) int64 {
	if n == Control {
		return -company
	}
	return company
}

func logOf(number int64) (company int64, name LogName) {
	if number < 0 {
		return -number, Control
	}
	return number, Actions
}

// Titled is how the log of a company, or of a number that no company has, is called before people.
func (n LogName) Titled(company string) string {
	if company == InstallationID && n == Control {
		return "log of the companies"
	}
	if n == Actions {
		return company
	}
	return company + " (" + string(n) + ")"
}

// Log is one of the two logs of a company. Its names are fixed when it is made, and tell nothing of
// the company.
type Log struct {
	Name   LogName
	Chain  int64 // number of its chain
	ID     string
	Origin string
}

// Logs are both logs of the company.
func (c *Company) Logs() []Log { return []Log{c.Actions, c.Control} }

// Log is the log of the company that has a name.
func (c *Company) Log(name LogName) Log {
	if name == Control {
		return c.Control
	}
	return c.Actions
}

// VKey is a key of the log's company as a verifier of the log's checkpoints knows it.
func (l Log) VKey(public ed25519.PublicKey) tlog.VKey {
	return tlog.VKey{Name: l.Origin, Type: tlog.TypeEd25519, Public: public}
}

// SignCheckpoint signs a checkpoint of one of the company's logs.
func (c *Company) SignCheckpoint(l Log, t tlog.Tree) ([]byte, error) {
	return tlog.Checkpoint{Origin: l.Origin, Tree: t}.Sign(c.key)
}

// maxOrigin is the length in bytes of the name of a signed note's key.
const maxOrigin = 255

// newLogNames makes the names of a log: an ID that tells nothing of the company, and an origin made
// of it.
func newLogNames(host string) (id, origin string, err error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never returns an error
	id = hex.EncodeToString(random[:])
	if origin = host + "/v1/log/" + id; len(origin) > maxOrigin {
		return "", "", fmt.Errorf("%w: the host of the public address makes the origin of a log longer than %d bytes", ErrRefused, maxOrigin)
	}
	return id, origin, nil
}

// insertLog makes a log of a company, with no records, which the key that the company has now signs
// from the first one on.
func insertLog(w *conn, company int64, name LogName, host string) (l Log, err error) {
	l = Log{Name: name, Chain: name.ChainID(company)}
	if l.ID, l.Origin, err = newLogNames(host); err != nil {
		return l, err
	}
	if _, err := w.exec(`INSERT INTO log (chain, company, name, log_id, origin) VALUES (?, ?, ?, ?, ?)`, l.Chain, company, name, l.ID, l.Origin); err != nil {
		return l, err
	}
	empty := chain.EmptyHead()
	if _, err := w.exec(`INSERT INTO head (chain, length, root, frontier, timestamp, log_root, log_frontier) VALUES (?1, 0, ?2, ?4, '', ?3, ?4)`,
		l.Chain, empty.Root[:], empty.LogRoot[:], []byte{}); err != nil {
		return l, err
	}
	_, err = w.exec(`INSERT INTO log_key (chain, generation, first_record)
		SELECT ?, generation, 0 FROM company_key WHERE company = ? AND ended_at IS NULL`, l.Chain, company)
	return l, err
}
