// Package store keeps everything in one SQLite file, or in a database of PostgreSQL that other
// servers write too.
//
// The rows and their SQL stand here, once for both; packages sqlite and postgres have what differs.
// A Store has one connection that writes and a few that read. All writes go through the queue of a
// chain.Log, which commits those of many callers together; each method has its SQL beside it. What
// the tables mean is said in schema.sql.
package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/atrest"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// maxCached bounds each cache, in entries.
const maxCached = 16384

// Store is an open database. It implements chain.Reader, and writes while somebody runs it.
type Store struct {
	View   // of now, at each call
	groups // what it does

	path       string
	opened     Options // for serving; the path of its head file is absolute
	settings   Settings
	secrets    atrest.Secrets
	unsealed   bool         // secrets are those of the file
	schema     atomic.Int64 // of the file; an older one is only read
	logHost    string       // of the origins of new logs
	lock       *sqlite.Lock // nil in a read-only store, as are writer, storage and log
	heads      *heads       // nil for a file without one, and while the database is behind it
	behind     []Behind     // in what it is
	writer     *writer
	storage    storage
	log        *chain.Log
	db         *sql.DB
	isPostgres bool           // db is a database of PostgreSQL, and no file
	side       *postgres.Side // of a server, as is holder
	spending   *postgres.Side // of a server, for budgets
	refused    refusals
	holder     string // names this store among those that serve the database
	duties     duties
	pruning    sync.Mutex   // see beginPrune
	lost       atomic.Int64 // generation of the connections to it
	suspected  chan error   // what is to be examined; see guardFile
	idle       chan *conn   // the readers that are free
	closed     bool
	closing    context.Context
	close      context.CancelFunc // ends closing, when Run or the store is to end

	verified cred.Verified // shared by all companies
	notices  []string      // see Notices
	isNew    bool          // this program has just made it

	companies   cache[string, dated[*Company]] // by companyId
	chains      cache[int64, dated[*Company]]  // by number
	credentials cache[[sha256.Size]byte, dated[credential]]
	// access tokens that were asked about, for each company its own
	introspected  cache[tenantHash, dated[credential]]
	revokedTokens cache[chain.Hash, dated[bool]]
	passports     cache[owned, dated[passportState]]
	agents        cache[owned, dated[agentState]]
	agentKeys     cache[owned, dated[AgentKey]]     // by thumbprint
	tokenKeys     cache[int64, dated[tokenKeySet]]  // by the number of the company
	federations   cache[owned, dated[[]Federation]] // by issuer
	// when what a JWT was asked for with was made, "" where it is gone
	requesters cache[owned, dated[string]]
	policies   cache[owned, dated[bool]] // whether only what a key signed counts
	// whether a company has named the audience with a hash for exchanges
	exchanges   cache[tenantHash, dated[bool]]
	suspensions cache[int64, dated[bool]] // by the number of the company
	limits      cache[int64, dated[comparedLimits]]
	sessions    cache[sessionID, time.Time] // when they were noted, by the caller's clock
	clients     cache[string, dated[oauthSecret]]
	// when the writer of a file saw last that nobody else had written, or had forgotten all for it
	externalChecked atomic.Pointer[time.Time]
	lastUsed        lastUsed
	generating      chan struct{} // has one element while token keys are generated
	// of the first token keys of companies: for strangers who read a set, and for tokens
	readPace, signedPace pace
	tokens               atomic.Pointer[[]byte] // the key of tokenRow.mac

	// the control log says that each row which may have an HMAC has one
	rowsSigned atomic.Bool
	doubt      *nameDoubt // whether the names of statements are complete
	// companies whose tables differ from their control logs
	changed changedSet
	// companies of which a checkpoint shows that a log went back
	halted        changedSet
	refusedWrites refusedCount
	quotas        atomic.Pointer[Quotas] // of RunOptions; nil before Run
	cosigned      cosigned               // what is known of the logs of others
	// of RunOptions, for what any goroutine finds; nil before Run
	journal atomic.Pointer[slog.Logger]
}

// owned is the name of something that belongs to a company.
type owned struct {
	company int64
	name    string
}

// prepareDriver comes before the first database is opened.
var prepareDriver = sync.OnceFunc(func() {
	sqlite.Prepare()
	registerFunctions()
})

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

// Open opens the database at path for serving, as its only server: it takes the lock beside the
// file, creates the file (0600) with schema when there is none, and upgrades one of an older
// schema, which Notices then says. A database that is behind its head file is opened, and every
// write of it fails with a RolledBackError; see Behind. ErrInUse, ErrForeign, ErrNewer, ErrCorrupt,
// ErrRefused, and ErrMasterKey before anything is touched.
func Open(ctx context.Context, path, schema string, o Options) (*Store, error) {
	if IsPostgres(path) {
		return openServer(ctx, path, o)
	}
	prepareDriver()
	return readAgain(ctx, path, func() (*Store, error) { return openFile(ctx, path, schema, o) })
}

func openFile(ctx context.Context, path, schema string, o Options) (_ *Store, err error) {
	if path, err = Absolute(path); err != nil {
		return nil, err
	}
	if o.Heads != "" {
		if o.Heads, err = Absolute(o.Heads); err != nil {
			return nil, err
		}
	}
	sqlite.Sweep(filepath.Dir(path))
	warning, err := sqlite.CheckAccess(path)
	if err != nil {
		return nil, err
	}
	// Once before the lock, so that no lock file is laid beside what is not ours, and once when
	// nobody else can act on the answer.
	if found, err := Identify(ctx, path); err == nil {
		_, err = found.Sealing.Unseal(path, o.Master)
		if err != nil {
			return nil, err
		}
	} else if !errors.Is(err, ErrNotFound) {
		return nil, err
	} else if err := refuseWithoutDatabase(path, o.Heads); err != nil {
		return nil, err
	}
	l, err := sqlite.LockName(path)
	if err != nil {
		return nil, err
	}
	s := newStore(path)
	s.lock, s.opened = l, o
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if warning != "" {
		s.notices = append(s.notices, warning)
	}
	s.settings, err = Identify(ctx, path)
	if s.isNew = errors.Is(err, ErrNotFound); s.isNew {
		if err := makeFile(ctx, path, schema, o); err != nil {
			return nil, err
		}
		s.settings, err = Identify(ctx, path)
	}
	if err == nil {
		err = s.Unseal(o.Master)
	}
	if err != nil {
		return nil, err
	}
	if s.IsScrubDue() {
		s.notices = append(s.notices, "attestd rekey was not carried to its end: free pages of "+path+" may hold keys as they stood before it; run it once more")
	}
	if err := s.belongs(o.Domain); err != nil {
		return nil, err
	}
	o.LogHost = cmp.Or(o.LogHost, s.Domain().TrustDomain)
	s.logHost = o.LogHost
	if err := s.lock.LockFile(path); err != nil {
		return nil, err
	}
	db, err := sqlite.Open(path, sqlite.ModeWriter)
	if err != nil {
		return nil, err
	}
	w, err := newFileWriter(ctx, db, path, s.secrets, &s.lastUsed, s.doubt, s.checkExternalWrite, s.damaged)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w.tables = s.Tables
	s.writer, s.storage, s.log = w.writer, w, chain.NewLog(w)
	from, err := migrate(ctx, s.writer.conn, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.schema.Store(schemaVersion)
	if from != schemaVersion {
		s.notices = append(s.notices, fmt.Sprintf("upgraded %s from schema %d to %d; an older attestd does not open it any more", path, from, schemaVersion))
	}
	if err := s.openReaders(ctx, path, sqlite.ModeReader); err != nil {
		return nil, err
	}
	return s, s.Rollback.openKnown(ctx, o.Heads)
}

// belongs refuses a database that was made for another domain.
func (s *Store) belongs(d cred.Domain) error {
	if d.Service != "" && d.Service != s.Domain().Service || d.TrustDomain != "" && d.TrustDomain != s.Domain().TrustDomain {
		return fmt.Errorf("%w: %s belongs to service %q in trust domain %q, for good; asked for %q in %q",
			ErrRefused, s.path, s.Domain().Service, s.Domain().TrustDomain, d.Service, d.TrustDomain)
	}
	return nil
}

// UpToDate says whether the database is of the schema of this program, and not of an older one.
func (s *Store) UpToDate() bool { return s.schema.Load() == schemaVersion }

// Unseal makes the keys of a file that is read readable; ErrMasterKey unless master is the key that
// they are sealed with, and nil where they are in plaintext. Nothing but Credentials.FirstKey and
// Company needs it: chains verify with public keys, which are in plaintext.
func (s *Store) Unseal(master *seal.Master) (err error) {
	s.secrets, err = s.settings.Sealing.Unseal(s.path, master)
	s.unsealed = err == nil
	return err
}

// MasterKeyID names the master key under which the private keys and API keys of the file are
// sealed; "" where they are in plaintext.
func (s *Store) MasterKeyID() string { return s.settings.Sealing.KeyID }

// IsScrubDue reports whether a change of the master key was interrupted, so that free pages may
// hold keys as they stood before it.
func (s *Store) IsScrubDue() bool { return s.settings.Sealing.Scrub }

// Notices are what the operator should know about how the database was found, a sentence each.
func (s *Store) Notices() []string { return s.notices }

// IsNew says whether there was no database, so that Open has made one.
func (s *Store) IsNew() bool { return s.isNew }

// Behind says in what the database is behind its head file, so that nothing is written; nothing
// when it is not.
func (s Rollback) Behind() []Behind { return s.db.behind }

// OpenReadOnly opens an existing database beside a running server, or without one. It never writes
// to the file, creates or upgrades it, and reads every schema from the oldest on; SQLite may leave
// an empty write-ahead log and its index beside one at rest, where the folder can be written.
// ErrNotFound, ErrForeign, ErrNewer, ErrCorrupt, ErrRefused.
func OpenReadOnly(ctx context.Context, path string) (*Store, error) {
	if IsPostgres(path) {
		return readServer(ctx, path)
	}
	prepareDriver()
	return readAgain(ctx, path, func() (*Store, error) { return openFileReadOnly(ctx, path) })
}

func openFileReadOnly(ctx context.Context, path string) (_ *Store, err error) {
	if path, err = Absolute(path); err != nil {
		return nil, err
	}
	s := newStore(path)
	if s.settings, err = Identify(ctx, path); err != nil {
		return nil, err
	}
	s.readable()
	mode, err := sqlite.ReadMode(path)
	if err == nil {
		err = s.openReaders(ctx, path, mode)
	}
	if err == nil {
		err = s.read(ctx, func(*conn) error { return nil }) // which finds out its schema
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// readable makes the secrets of a file that is read readable where they are in plaintext.
func (s *Store) readable() {
	s.secrets, s.unsealed = s.settings.Sealing.Locked(), s.settings.Sealing.KeyID == ""
}

func newStore(path string) *Store {
	s := &Store{path: path, doubt: newNameDoubt(), idle: make(chan *conn, readers), suspected: make(chan error, 1), generating: make(chan struct{}, 1),
		readPace: pace{burst: firstKeysRead, every: firstKeysReadIn}, signedPace: pace{burst: firstKeysSigned, every: firstKeysSignedIn}}
	s.store, s.groups = s, s.group()
	s.closing, s.close = context.WithCancel(context.Background())
	for _, limit := range []*int{&s.companies.max, &s.chains.max, &s.credentials.max, &s.introspected.max, &s.revokedTokens.max, &s.passports.max, &s.agents.max, &s.agentKeys.max, &s.tokenKeys.max, &s.federations.max, &s.policies.max, &s.requesters.max, &s.exchanges.max, &s.suspensions.max, &s.limits.max, &s.sessions.max, &s.clients.max} {
		*limit = maxCached
	}
	return s
}

// Domain is the service name and trust domain fixed in the file.
func (s *Store) Domain() cred.Domain { return s.settings.Domain }
