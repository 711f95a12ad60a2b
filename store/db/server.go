package db

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

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

// DialPostgres connects to a PostgreSQL database, and counts the notices that its connections get.
// Identify checks what the database is.
func DialPostgres(address string) (*DB, *atomic.Int64, error) {
	notes := new(atomic.Int64)
	d := NewFile(Name(address))
	d.isPostgres = true
	var err error
	if d.pool, err = postgres.Open(address, notes); err != nil {
		return nil, nil, d.NamedError(err)
	}
	d.side, d.spending, d.holder = postgres.NewSide(d.pool), postgres.NewSide(d.pool), rand.Text()
	for range readers {
		d.idle <- &Conn{}
	}
	return d, notes, nil
}

// identifyServer checks what the database is, and reads its settings.
func (d *DB) identifyServer(ctx context.Context) error {
	found, err := postgres.Identify(ctx, d.pool)
	if err != nil {
		return d.NamedError(err)
	}
	if d.settings, err = parseSettings(found.Settings); err != nil {
		return d.NamedError(err)
	}
	d.schema.Store(SchemaVersion)
	return nil
}

// Risks says what a loss of the PostgreSQL server would cost, a sentence each; nothing for a file.
func (d *DB) Risks(ctx context.Context) (said []string, err error) {
	if !d.isPostgres {
		return nil, nil
	}
	var standbys, fsync string
	err = d.Read(ctx, func(c *Conn) error {
		return c.One([]any{&standbys, &fsync},
			`SELECT current_setting('synchronous_standby_names'), current_setting('fsync')`)
	})
	if err != nil {
		return nil, d.NamedError(err)
	}
	if standbys == "" {
		said = append(said, "the database waits for no standby (synchronous_standby_names is empty): to promote one would lose what was acknowledged last")
	}
	if fsync == "off" {
		said = append(said, "the database does not sync (fsync is off): what is acknowledged is lost with its machine")
	}
	return said, nil
}

// NamedError adds the name of the database and a sentinel to an error of package postgres.
func (d *DB) NamedError(err error) error { return PostgresError(d.path, err) }

// PostgresError adds the name of a database and the sentinel of this package to an error of package
// postgres. It returns nil for nil.
func PostgresError(name string, err error) error {
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
