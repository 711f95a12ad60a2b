package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"attestd/chain"
	"attestd/store/postgres"
)

// IsPostgres reports whether the name of a database is the URL of a PostgreSQL server.
func IsPostgres(name string) bool { return postgres.IsURL(name) }

// Name returns the display name of a database: its path, or its URL without secrets.
func Name(name string) string {
	if IsPostgres(name) {
		return postgres.Name(name)
	}
	if path, err := filepath.Abs(name); err == nil {
		return path
	}
	return name
}

// openServer opens a PostgreSQL database for serving, possibly beside other servers, and creates
// missing tables.
func openServer(ctx context.Context, address string, o Options) (_ *Store, err error) {
	s, notes, err := dialServer(address)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.Heads != "" {
		if o.Heads, err = Absolute(o.Heads); err != nil {
			return nil, err
		}
	}
	s.opened = o
	err = s.identifyServer(ctx)
	if s.isNew = errors.Is(err, ErrNotFound); s.isNew {
		if err = refuseWithoutDatabase(s.path, o.Heads); err == nil {
			err = s.makeServer(ctx, o)
		}
		if err == nil {
			err = s.identifyServer(ctx)
		}
	}
	if err == nil {
		err = s.Unseal(o.Master)
	}
	if err != nil {
		return nil, err
	}
	if err := s.belongs(o.Domain); err != nil {
		return nil, err
	}
	s.logHost = cmp.Or(o.LogHost, s.Domain().TrustDomain)
	risks, err := s.Risks(ctx)
	if err != nil {
		return nil, err
	}
	s.notices = append(s.notices, risks...)
	to := postgres.NewWriter(s.closing, s.db, notes)
	if _, err := to.Conn(); errors.Is(err, postgres.ErrRefused) {
		return nil, s.namedServer(err)
	}
	w := newPGWriter(to, postgres.NewWatch(s.db), s.secrets, &s.lastUsed, s.doubt)
	if err := w.connect(); err != nil {
		return nil, err
	}
	w.tables = s.Tables
	s.writer, s.storage, s.log = w.writer, w, chain.NewLog(w)
	err = s.Rollback.openKnown(ctx, o.Heads)
	w.heads = s.heads
	return s, err
}

// readServer opens a PostgreSQL database for reading.
func readServer(ctx context.Context, address string) (_ *Store, err error) {
	s, _, err := dialServer(address)
	if err != nil {
		return nil, err
	}
	if err = s.identifyServer(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.readable()
	return s, nil
}

func dialServer(address string) (*Store, *atomic.Int64, error) {
	notes := new(atomic.Int64)
	s := newStore(Name(address))
	s.isPostgres = true
	var err error
	if s.db, err = postgres.Open(address, notes); err != nil {
		return nil, nil, s.namedServer(err)
	}
	s.side, s.spending, s.holder = postgres.NewSide(s.db), postgres.NewSide(s.db), rand.Text()
	for range readers {
		s.idle <- &conn{}
	}
	return s, notes, nil
}

// makeServer creates the tables and settings of a new database.
func (s *Store) makeServer(ctx context.Context, o Options) error {
	settings, err := newSettings(o.Domain, o.Master)
	if err != nil {
		return err
	}
	return s.namedServer(postgres.Create(ctx, s.db, settings))
}

// identifyServer checks what the database is, and reads its settings.
func (s *Store) identifyServer(ctx context.Context) error {
	found, err := postgres.Identify(ctx, s.db)
	if err != nil {
		return s.namedServer(err)
	}
	if s.settings, err = parseSettings(found.Settings); err != nil {
		return s.namedServer(err)
	}
	s.schema.Store(schemaVersion)
	return nil
}

// Risks says what a loss of the PostgreSQL server would cost, a sentence each; nothing for a file.
func (s *Store) Risks(ctx context.Context) (said []string, err error) {
	if !s.isPostgres {
		return nil, nil
	}
	var standbys, fsync string
	err = s.read(ctx, func(c *conn) error {
		return c.one([]any{&standbys, &fsync},
			`SELECT current_setting('synchronous_standby_names'), current_setting('fsync')`)
	})
	if err != nil {
		return nil, s.namedServer(err)
	}
	if standbys == "" {
		said = append(said, "the database waits for no standby (synchronous_standby_names is empty): to promote one would lose what was acknowledged last")
	}
	if fsync == "off" {
		said = append(said, "the database does not sync (fsync is off): what is acknowledged is lost with its machine")
	}
	return said, nil
}

func (s *Store) namedServer(err error) error { return namedServer(s.path, err) }

// namedServer adds the name of a database and the store's sentinel to an error of package postgres.
func namedServer(name string, err error) error {
	if err == nil {
		return nil
	}
	for is, sentinel := range map[error]error{
		postgres.ErrNotFound: ErrNotFound, postgres.ErrForeign: ErrForeign, postgres.ErrNewer: ErrNewer,
		postgres.ErrOlder:   ErrRefused,
		postgres.ErrCorrupt: ErrCorrupt, postgres.ErrRefused: ErrRefused, postgres.ErrUnavailable: ErrUnavailable,
		postgres.ErrInUse: ErrInUse, postgres.ErrExists: ErrRefused,
	} {
		if errors.Is(err, is) {
			return &serverError{name, sentinel, err}
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}

// serverError adds a database's name to an error of package postgres. It does not repeat the text
// of the sentinel, which that error contains already.
type serverError struct {
	name     string
	sentinel error
	err      error
}

func (e *serverError) Error() string   { return e.name + ": " + e.err.Error() }
func (e *serverError) Unwrap() []error { return []error{e.sentinel, e.err} }
