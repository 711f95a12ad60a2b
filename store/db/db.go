// Package db opens a database of either engine, and reads it. Packages store and ledger build on
// it, and it imports neither.
//
// A DB has a few connections that read, the settings and the schema of the database, its clocks and
// the caches of what was read. A Conn is one connection, with its prepared statements. All
// statements are written once, for both engines; what differs is in dialect.go, and in packages
// sqlite and postgres. Nothing here knows what the rows mean, or writes them, except for the steps
// that upgrade a file. A newcomer begins with DB and Conn.
package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/atrest"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// DB is an open database: its engine, the connections that read it, its schema and settings, and
// the caches of what was read.
type DB struct {
	path       string
	settings   Settings
	secrets    atrest.Secrets
	unsealed   bool         // secrets are those of the file
	schema     atomic.Int64 // of the file; an older one is only read
	pool       *sql.DB
	isPostgres bool           // pool is of a database of PostgreSQL, and no file
	idle       chan *Conn     // the readers that are free
	lost       atomic.Int64   // generation of the connections to PostgreSQL
	side       *postgres.Side // of a server, as is holder
	spending   *postgres.Side // of a server, for budgets
	refused    refusals
	holder     string // names this DB among those that serve the database
	duties     duties
	// replaces an error that calls a file corrupt; nil while no server runs on it
	onDamage func(error) error
	keyClock *KeyClock // nil while no server runs on the database
	caches   []func()  // each empties one
	// when the writer of a file last saw that there was no external write, or had dropped all
	// caches for one
	externalChecked atomic.Pointer[time.Time]
}

// NewFile returns the database of a file, before Identify and OpenReaders.
func NewFile(path string) *DB { return &DB{path: path, idle: make(chan *Conn, readers)} }

// MultiWriter says whether other servers may write the database too.
func (d *DB) MultiWriter() bool { return d.isPostgres }

// Path is the path of the file, or the URL of a PostgreSQL database without secrets.
func (d *DB) Path() string { return d.path }

// Schema is the version of the schema that the database has.
func (d *DB) Schema() int64 { return d.schema.Load() }

// UpToDate says whether the database is of the schema of this program, and not of an older one.
func (d *DB) UpToDate() bool { return d.schema.Load() == SchemaVersion }

// Belongs refuses a database that was made for another domain.
func (d *DB) Belongs(to cred.Domain) error {
	if to.Service != "" && to.Service != d.Domain().Service || to.TrustDomain != "" && to.TrustDomain != d.Domain().TrustDomain {
		return fmt.Errorf("%w: %s belongs to service %q in trust domain %q, for good; asked for %q in %q",
			ErrRefused, d.path, d.Domain().Service, d.Domain().TrustDomain, to.Service, to.TrustDomain)
	}
	return nil
}

// Unseal makes the keys of a database readable; ErrMasterKey unless master is the key that they are
// sealed with, and nil where they are in plaintext. Nothing but Credentials.FirstKey and Company
// needs it: chains verify with public keys, which are in plaintext.
func (d *DB) Unseal(master *seal.Master) (err error) {
	d.secrets, err = d.settings.Sealing.Unseal(d.path, master)
	d.unsealed = err == nil
	return err
}

// Readable makes the secrets of a database that is read readable where they are in plaintext.
func (d *DB) Readable() {
	d.secrets, d.unsealed = d.settings.Sealing.Locked(), d.settings.Sealing.KeyID == ""
}

// Pool has the connections of the database.
func (d *DB) Pool() *sql.DB { return d.pool }

// Secrets opens and seals the secrets in the rows.
func (d *DB) Secrets() atrest.Secrets { return d.secrets }

// IsUnsealed reports whether Secrets are those of the database, because the master key is known.
func (d *DB) IsUnsealed() bool { return d.unsealed }

// Sealing says how the secrets are sealed.
func (d *DB) Sealing() atrest.Sealing { return d.settings.Sealing }

// MasterKeyID names the master key under which the private keys and API keys of the file are
// sealed; "" where they are in plaintext.
func (d *DB) MasterKeyID() string { return d.settings.Sealing.KeyID }

// IsScrubDue reports whether a change of the master key was interrupted, so that free pages may
// hold keys as they were before it.
func (d *DB) IsScrubDue() bool { return d.settings.Sealing.Scrub }

// Domain is the service name and trust domain fixed in the file.
func (d *DB) Domain() cred.Domain { return d.settings.Domain }

// Serve prepares for writing: by is the clock by which keys expire, and onDamage replaces an error
// that calls a file corrupt.
func (d *DB) Serve(by *KeyClock, onDamage func(error) error) { d.keyClock, d.onDamage = by, onDamage }

// Upgraded records that the database has the schema of this program.
func (d *DB) Upgraded() { d.schema.Store(SchemaVersion) }

// Identify checks what the database is, and reads its settings; its errors are those of the
// function Identify.
func (d *DB) Identify(ctx context.Context) (err error) {
	if d.isPostgres {
		return d.identifyServer(ctx)
	}
	d.settings, err = Identify(ctx, d.path)
	return err
}

// Create makes the database, which is not there yet: a file with schema, or the tables of
// PostgreSQL.
func (d *DB) Create(ctx context.Context, schema string, domain cred.Domain, master *seal.Master) error {
	settings, err := newSettings(domain, master)
	if err != nil {
		return err
	}
	if d.isPostgres {
		return d.NamedError(postgres.Create(ctx, d.pool, settings))
	}
	return sentinel(sqlite.Create(ctx, d.path, schema, settings))
}

// Duties are the states of the duties that this server has asked for, by name.
func (d *DB) Duties() map[string]DutyStatus { return d.duties.all() }

// Elapsed is the time of the monotonic clock of Serve, or 0 before it.
func (d *DB) Elapsed() time.Duration {
	if d.keyClock == nil {
		return 0
	}
	return d.keyClock.elapsed()
}

// Reconnect makes reads use new connections, because one to PostgreSQL was lost.
func (d *DB) Reconnect() { d.lost.Add(1) }

// CloseConnections closes all connections that read.
func (d *DB) CloseConnections() error {
	var errs []error
	for len(d.idle) > 0 {
		if c := <-d.idle; c.SQL != nil {
			if err := c.Close(); !errors.Is(err, sql.ErrConnDone) { // it was lost before
				errs = append(errs, err)
			}
		}
	}
	if d.side != nil {
		d.side.Close()
		d.spending.Close()
	}
	if d.pool != nil {
		errs = append(errs, d.pool.Close())
	}
	return errors.Join(errs...)
}

// On returns a DB for reading on one connection only, which sees the writes of its own transaction.
// path is the name of the database.
func On(path string, c *Conn) *DB {
	d := NewFile(path)
	d.schema.Store(SchemaVersion)
	d.idle <- c
	return d
}

// Filled tells a DB of On that its database has its rows: what the settings say counts from then
// on.
func (d *DB) Filled(ctx context.Context) error {
	return d.Read(ctx, func(c *Conn) (err error) {
		d.settings, err = settingsOf(c)
		return err
	})
}
