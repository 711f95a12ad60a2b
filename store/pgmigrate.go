package store

import (
	"context"
	"errors"

	"attestd/store/postgres"
)

// Migrated says what Migrate found and did.
type Migrated struct {
	IsNew     bool   // it has made the tables
	Steps     []int  // the schemas to which it has brought them, one after the other
	Version   int    // the schema that they have now
	Namespace string // what PostgreSQL calls a schema: where they are
}

// Migrate makes the tables of an empty database of PostgreSQL, as the first server would with o, or
// brings those of an older schema to that of this program, as their owner. Two that do so at once
// do it once. ErrForeign, ErrNewer, ErrRefused and ErrUnavailable leave the database as it was, of
// an upgrade as the last whole step has left it.
func Migrate(ctx context.Context, address string, o Options) (m Migrated, err error) {
	s, _, err := dialServer(address)
	if err != nil {
		return m, err
	}
	defer s.Close()
	found, err := postgres.Identify(ctx, s.db)
	switch {
	case errors.Is(err, postgres.ErrNotFound):
		m.IsNew = true
		if err := s.makeServer(ctx, o); err != nil {
			return m, err
		}
		found, err = postgres.Identify(ctx, s.db)
	case errors.Is(err, postgres.ErrOlder):
		if err := postgres.Migrate(ctx, s.db, func(version int) { m.Steps = append(m.Steps, version) }); err != nil {
			return m, s.namedServer(err)
		}
		found, err = postgres.Identify(ctx, s.db)
	}
	if err != nil {
		return m, s.namedServer(err)
	}
	if s.settings, err = parseSettings(found.Settings); err != nil {
		return m, s.namedServer(err)
	}
	m.Version, m.Namespace = found.Version, found.Namespace
	return m, s.belongs(o.Domain)
}

// Grants is the SQL that lets a role of PostgreSQL serve from the tables in a namespace, and change
// nothing there that must not change. Their owner carries it out.
func Grants(namespace, role string) string { return postgres.Grants(namespace, role) }
