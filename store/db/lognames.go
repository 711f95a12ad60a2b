package db

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/headfile"
)

// LogName names one of the two logs of a company.
type LogName string

const (
	// actions of the company's agents: the chain of the specification
	Actions LogName = "actions"
	Control LogName = "control" // changes to the configuration of the service
)

// The log of the companies lists all companies: it has a record for each, in the order of
// registration. It is the control log of an owner that is not a tenant, the installation, whose
// name is not a valid company ID and which has no credential. So its keys, rotations, checkpoints,
// witnesses, head file and verification work like those of every log.
const (
	InstallationID = "@installation"
	// number of the installation, greater than that of any company
	Installation = headfile.Installation
)

// Cosigned marks a log of another operator in a Behind.
const Cosigned LogName = "cosigned"

// ChainID returns the ID of a company's chain. The action chain has the number of the company, so
// that rows from before the control log remain valid; the control chain has its negative. LogOf is
// the inverse.
func (n LogName) ChainID(company int64) int64 {
	if n == Control {
		return -company
	}
	return company
}

func LogOf(number int64) (company int64, name LogName) {
	if number < 0 {
		return -number, Control
	}
	return number, Actions
}

// Titled returns the display name of a log of a company.
func (n LogName) Titled(company string) string {
	if company == InstallationID && n == Control {
		return "log of the companies"
	}
	if n == Actions {
		return company
	}
	return company + " (" + string(n) + ")"
}

// Log is one of the two logs of a company. Its names are fixed when it is created, and reveal
// nothing about the company.
type Log struct {
	Name   LogName
	Chain  int64 // ID of its chain
	ID     string
	Origin string
}

// VKey returns the vkey for verifying the log's checkpoints with a key of the log's company.
func (l Log) VKey(public ed25519.PublicKey) tlog.VKey {
	return tlog.VKey{Name: l.Origin, Type: tlog.TypeEd25519, Public: public}
}

// maxOrigin is the maximum length in bytes of a key name in a signed note.
const maxOrigin = 255

// LogPath is between the host and the ID in the origin of a log.
const LogPath = "/v1/log/"

// newLogNames generates a random ID of a log, which reveals nothing about the company, and its
// origin.
func newLogNames(host string) (id, origin string, err error) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never returns an error
	id = hex.EncodeToString(random[:])
	if origin = host + LogPath + id; len(origin) > maxOrigin {
		return "", "", fmt.Errorf("%w: the host of the public address makes the origin of a log longer than %d bytes",
			ErrRefused, maxOrigin)
	}
	return id, origin, nil
}

// InsertLog creates an empty log of a company, which the company's current key signs from the first
// record on.
func InsertLog(w *Conn, company int64, name LogName, host string) (l Log, err error) {
	l = Log{Name: name, Chain: name.ChainID(company)}
	if l.ID, l.Origin, err = newLogNames(host); err != nil {
		return l, err
	}
	if _, err := w.Exec(`INSERT INTO log (chain, company, name, log_id, origin) VALUES (?, ?, ?, ?, ?)`, l.Chain, company,
		name, l.ID, l.Origin); err != nil {
		return l, err
	}
	empty := chain.EmptyHead()
	if _, err := w.Exec(`INSERT INTO head (chain, length, root, frontier, timestamp, log_root, log_frontier)
		VALUES (?1, 0, ?2, ?4, '', ?3, ?4)`,
		l.Chain, empty.Root[:], empty.LogRoot[:], []byte{}); err != nil {
		return l, err
	}
	_, err = w.Exec(`INSERT INTO log_key (chain, generation, first_record)
		SELECT ?, generation, 0 FROM company_key WHERE company = ? AND ended_at IS NULL`, l.Chain, company)
	return l, err
}
