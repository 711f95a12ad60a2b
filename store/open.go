// Package store stores everything in one SQLite file, or in a PostgreSQL database that other
// servers write too. This package has the rows of companies and of their rights, with their caches.
// Each method has its SQL, written once for both engines; schema.sql says what the tables mean.
//
// Package db below it has the connections and the schema. Package ledger, between the two, has the
// logs and the one connection that writes. Store joins them, and imports nothing of service or
// server. A newcomer begins with the groups of methods in groups.go, and with controlled in
// control.go, which writes a change with its control record. No group uses one that is made after
// it: the comparison with the control logs, the head file and verification are above all rights.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/sqlite"
)

// Store is an open database. It implements chain.Reader, and writes while Run runs.
type Store struct {
	View // of now, at each call
	*ledger.Ledger
	groups // what it does

	base   *base
	opened Options // for serving; the path of its head file is absolute
}

// Options say how a database is opened for serving.
type Options struct {
	// fixed at creation; an empty field means "what the file says, or the default for a new one"
	cred.Domain
	// under which the private keys and API keys of the file are sealed, or are to be in a new one;
	// nil for in plaintext
	Master *seal.Master
	// of the origins of the logs of companies that register; "" for the trust domain
	LogHost  string
	Heads    string                                // the head file; "" for none
	Progress func(stage string, done, total int64) // of an upgrade, in records; may be nil
}

// Open opens the database at path for serving, as its only server: it takes the lock next to the
// file, creates the file (0600) with schema when there is none, and upgrades one of an older
// schema, which Notices then reports. A database that is behind its head file is opened, and every
// write of it fails with a RolledBackError; see Behind. ErrInUse, ErrForeign, ErrNewer, ErrCorrupt,
// ErrRefused, and ErrMasterKey before anything is touched.
func Open(ctx context.Context, path, schema string, o Options) (*Store, error) {
	if db.IsPostgres(path) {
		return openServer(ctx, path, o)
	}
	db.PrepareDriver()
	return readAgain(ctx, path, func() (*Store, error) { return openFile(ctx, path, schema, o) })
}

func openFile(ctx context.Context, path, schema string, o Options) (_ *Store, err error) {
	if path, err = db.Absolute(path); err != nil {
		return nil, err
	}
	if o.Heads != "" {
		if o.Heads, err = db.Absolute(o.Heads); err != nil {
			return nil, err
		}
	}
	sqlite.Sweep(filepath.Dir(path))
	warning, err := sqlite.CheckAccess(path)
	if err != nil {
		return nil, err
	}
	// Once before the lock, so that no lock file is made next to a foreign file, and once when no
	// other process can act on the answer.
	if found, err := db.Identify(ctx, path); err == nil {
		_, err = found.Sealing.Unseal(path, o.Master)
		if err != nil {
			return nil, err
		}
	} else if !errors.Is(err, db.ErrNotFound) {
		return nil, err
	} else if err := refuseWithoutDatabase(path, o.Heads); err != nil {
		return nil, err
	}
	l, err := sqlite.LockName(path)
	if err != nil {
		return nil, err
	}
	s := newStore(db.NewFile(path))
	s.opened = o
	s.Lock(l)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if warning != "" {
		s.base.notices = append(s.base.notices, warning)
	}
	err = s.Identify(ctx)
	if s.base.isNew = errors.Is(err, db.ErrNotFound); s.base.isNew {
		if err := s.Create(ctx, schema, o.Domain, o.Master); err != nil {
			return nil, err
		}
		err = s.Identify(ctx)
	}
	if err == nil {
		err = s.Unseal(o.Master)
	}
	if err != nil {
		return nil, err
	}
	if s.IsScrubDue() {
		s.base.notices = append(s.base.notices, "attestd rekey was not carried to its end: free pages of "+path+" may hold keys as they stood before it; run it once more")
	}
	if err := s.Belongs(o.Domain); err != nil {
		return nil, err
	}
	o.LogHost = cmp.Or(o.LogHost, s.Domain().TrustDomain)
	s.base.logHost = o.LogHost
	if err := l.LockFile(path); err != nil {
		return nil, err
	}
	if err := s.OpenFile(ctx, s.Tables.obeyedLimits); err != nil {
		return nil, err
	}
	from, err := db.Upgrade(ctx, s.WriterConn(), o.LogHost, o.Progress)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Upgraded()
	if from != db.SchemaVersion {
		s.base.notices = append(s.base.notices, fmt.Sprintf("upgraded %s from schema %d to %d; an older attestd does not open it any more", path, from, db.SchemaVersion))
	}
	if err := s.OpenReaders(ctx, sqlite.ModeReader); err != nil {
		return nil, err
	}
	return s, s.openKnown(ctx, o.Heads)
}

// Notices are what the operator should know about how the database was found, a sentence each.
func (s *Store) Notices() []string { return s.base.notices }

// IsNew says whether there was no database, so that Open has made one.
func (s *Store) IsNew() bool { return s.base.isNew }

// Behind says in what the database is behind its head file, so that nothing is written; nothing
// when it is not.
func (s Rollback) Behind() []Behind { return s.head.behind }

// OpenReadOnly opens an existing database, with or without a running server. It never writes to the
// file, creates or upgrades it, and reads every schema from the oldest on. Where the folder is
// writable, SQLite may leave an empty write-ahead log and its index next to a file at rest.
// ErrNotFound, ErrForeign, ErrNewer, ErrCorrupt, ErrRefused.
func OpenReadOnly(ctx context.Context, path string) (*Store, error) {
	if db.IsPostgres(path) {
		return readServer(ctx, path)
	}
	db.PrepareDriver()
	return readAgain(ctx, path, func() (*Store, error) { return openFileReadOnly(ctx, path) })
}

func openFileReadOnly(ctx context.Context, path string) (_ *Store, err error) {
	if path, err = db.Absolute(path); err != nil {
		return nil, err
	}
	s := newStore(db.NewFile(path))
	if err = s.Identify(ctx); err != nil {
		return nil, err
	}
	s.Readable()
	mode, err := sqlite.ReadMode(path)
	if err == nil {
		err = s.OpenReaders(ctx, mode)
	}
	if err == nil {
		err = s.Read(ctx, func(*db.Conn) error { return nil }) // which finds out its schema
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func newStore(d *db.DB) *Store {
	s := &Store{base: &base{Ledger: ledger.New(d), now: ledger.View{Source: db.NewSource(d)}}}
	s.Ledger = s.base.Ledger
	s.groups, s.View = newGroups(s.base)
	return s
}

// readAgain opens a database a second time if SQLite calls it corrupt, because a single failed read
// is not damage. It returns ErrUnavailable if the disk cannot be read.
func readAgain(ctx context.Context, path string, open func() (*Store, error)) (*Store, error) {
	s, err := open()
	if db.IsDamage(err) {
		if err = sqlite.ReadError(ctx, path, err); db.IsDamage(err) {
			s, err = open()
			err = sqlite.ReadError(ctx, path, err)
		}
	}
	return s, err
}

// openKnown compares the database with what is known of it elsewhere, at the start and from then
// on.
func (s *Store) openKnown(ctx context.Context, heads string) error {
	err := s.Rollback.openKnown(ctx, heads)
	if s.Rollback.head.heads != nil {
		s.SetGuard(s.Rollback.head.heads)
	}
	return err
}

// Snapshot calls fn with a snapshot of the database, which hides concurrent commits. fn MUST return
// soon, because it holds a connection of the pool, and on SQLite blocks checkpoints. It MUST NOT
// call the Store, which would use another connection, nor retain the View. If the connection is
// lost before the first read, fn runs again, so it MUST set its results and not add to them.
func (s *Store) Snapshot(ctx context.Context, fn func(*View) error) error {
	return s.DB.Snapshot(ctx, func(at db.Source) error {
		return fn(&View{ledger.View{Source: at}, s.View.companies, s.View.passports})
	})
}
