package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/postgres"
)

// Migrated is the result of Migrate.
type Migrated struct {
	IsNew   bool  // it created the tables
	Steps   []int // schemas to which it upgraded, in order
	Version int   // current schema version
	// of logs whose heads counted bytes wrongly, and count them rightly now
	Recounted int
	Namespace string // PostgreSQL schema that has the tables
}

// Migrate creates the tables of an empty PostgreSQL database, as the first server would with o, or
// upgrades them to this program's schema. Its role MUST own the tables. Of two concurrent calls,
// only one does the work. ErrForeign, ErrNewer, ErrRefused and ErrUnavailable leave the database
// unchanged, or in an upgrade at the last completed step. If an upgrade ends before the bytes of
// all logs are counted again, the next call continues that.
func Migrate(ctx context.Context, address string, o Options) (m Migrated, err error) {
	d, _, err := db.DialPostgres(address)
	if err != nil {
		return m, err
	}
	s := newStore(d)
	defer s.Close()
	found, err := postgres.Identify(ctx, s.Pool())
	switch {
	case errors.Is(err, postgres.ErrNotFound):
		m.IsNew = true
		if err := s.Create(ctx, "", o.Domain, o.Master); err != nil {
			return m, err
		}
		found, err = postgres.Identify(ctx, s.Pool())
	case errors.Is(err, postgres.ErrOlder):
		if err := postgres.Migrate(ctx, s.Pool(), func(version int) { m.Steps = append(m.Steps, version) }); err != nil {
			return m, s.NamedError(err)
		}
		found, err = postgres.Identify(ctx, s.Pool())
	}
	if err != nil {
		return m, s.NamedError(err)
	}
	if err := s.Identify(ctx); err != nil {
		return m, err
	}
	m.Version, m.Namespace = found.Version, found.Namespace
	if err := s.Belongs(o.Domain); err != nil || found.Settings[postgres.UncountedSetting] == "" {
		return m, err
	}
	m.Recounted, err = recountUpgraded(ctx, s)
	return m, s.NamedError(err)
}

// recountUpgraded counts the bytes of all logs again, after an upgrade during which servers that do
// not count any may have appended. Servers may append meanwhile. The next start of a server records
// what was wrong, because the keys that sign records may be sealed here.
func recountUpgraded(ctx context.Context, s *Store) (wrong int, err error) {
	s.Readable()
	own, err := s.Pool().Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer own.Close()
	w := db.OnPostgres(own)
	for after, more := int64(-1<<62), true; more; {
		var page []int64
		if err := s.Read(ctx, func(c *db.Conn) error {
			return c.Each(func(rows *sql.Rows) error {
				var number int64
				err := rows.Scan(&number)
				page = append(page, number)
				return err
			}, `SELECT chain FROM head WHERE chain > ? AND length > 0 ORDER BY chain LIMIT 256`, after)
		}); err != nil {
			return wrong, err
		}
		for _, number := range page {
			n, err := recountUnsigned(ctx, s, own, w, number)
			if err != nil {
				return wrong, fmt.Errorf("count the bytes of chain %d again: %w", number, err)
			}
			if n.Found != n.Counted {
				wrong++
			}
			after = number
		}
		more = len(page) > 0
	}
	return wrong, postgres.Change(ctx, own, func() error {
		_, err := w.Exec(`DELETE FROM setting WHERE name = ?`, postgres.UncountedSetting)
		return err
	})
}

// recountUnsigned is recount, and leaves the control record to the next start. A log whose pruned
// payloads are not proven, or whose company is missing, stays as it is: verification reports that.
func recountUnsigned(ctx context.Context, s *Store, own *sql.Conn, w *db.Conn, number int64) (n ByteCount, err error) {
	company, _ := db.LogOf(number)
	n, err = s.recount(ctx, number, func(rows func(*db.Conn) ([]controlEvent, error)) error {
		return postgres.Change(ctx, own, func() error {
			events, err := rows(w)
			if err != nil || len(events) == 0 {
				return err
			}
			var id string
			if err := w.One([]any{&id}, `SELECT company_id FROM company WHERE id = ?`, company); err != nil {
				return err
			}
			e := events[0]
			return LeaveUnrecorded(w, Unrecorded{Action: e.action, Company: id, Subject: e.subject, Details: e.details})
		})
	})
	if errors.Is(err, chain.ErrUnproven) || errors.Is(err, db.ErrNotFound) {
		return ByteCount{}, nil
	}
	return n, err
}

// Grants returns the SQL that allows a role of PostgreSQL to serve from the tables in a namespace,
// without rights to change immutable rows. The owner of the tables runs it.
func Grants(namespace, role string) string { return postgres.Grants(namespace, role) }
