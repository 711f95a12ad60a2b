package store

import (
	"context"
	"errors"

	"attestd/store/postgres"
)

// Migrated is the result of Migrate.
type Migrated struct {
	IsNew     bool   // it created the tables
	Steps     []int  // schemas to which it upgraded, in order
	Version   int    // current schema version
	Namespace string // PostgreSQL schema that has the tables
}

// Migrate creates the tables of an empty PostgreSQL database, as the first server would with o, or
// upgrades them to this program's schema. Its role MUST own the tables. Of two concurrent calls,
// only one does the work. ErrForeign, ErrNewer, ErrRefused and ErrUnavailable leave the database
// unchanged, or in an upgrade at the last completed step.
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

// Grants returns the SQL that lets a role of PostgreSQL serve from the tables in a namespace,
// without rights to change immutable rows. The owner of the tables runs it.
func Grants(namespace, role string) string { return postgres.Grants(namespace, role) }
