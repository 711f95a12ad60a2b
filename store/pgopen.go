package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"attestd/chain"
	"attestd/store/postgres"
)

// IsServer says whether what names a database is the URL of a server, and no path.
func IsServer(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// Name is what a database is called before people: its path, or its URL without the password.
func Name(name string) string {
	if !IsServer(name) {
		if path, err := filepath.Abs(name); err == nil {
			return path
		}
		return name
	}
	u, err := url.Parse(name)
	if err != nil {
		return "the PostgreSQL database" // it may hold a password anywhere
	}
	q := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		q.Del(secret)
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// openServer opens a database of a PostgreSQL server for serving, beside others that serve it, and makes its tables where there are none.
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
	if err := s.makeServer(ctx, o); err != nil {
		return nil, err
	}
	if err = s.readServerSettings(ctx); err == nil {
		err = s.Unseal(o.Master)
	}
	if err != nil {
		return nil, err
	}
	if err := s.belongs(o.Domain); err != nil {
		return nil, err
	}
	s.logHost = cmp.Or(o.LogHost, s.Domain().TrustDomain)
	w := newPGWriter(postgres.NewWriter(s.db, notes), s.secrets, &s.uses)
	if err := w.connect(); err != nil {
		return nil, err
	}
	s.writer, s.storage, s.log = w.writer, w, chain.NewLog(w)
	if o.Heads == "" {
		return s, nil
	}
	return s, s.openHeads(ctx, o.Heads, false)
}

// readServer opens such a database for reading.
func readServer(ctx context.Context, address string) (_ *Store, err error) {
	s, _, err := dialServer(address)
	if err != nil {
		return nil, err
	}
	if err = s.readServerSettings(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.secrets.sealed = s.settings.sealing.keyID != ""
	return s, nil
}

func dialServer(address string) (*Store, *atomic.Int64, error) {
	notes := new(atomic.Int64)
	db, err := postgres.Open(address, notes)
	if err != nil {
		return nil, nil, err
	}
	s := newStore(Name(address))
	s.db, s.server = db, true
	for range readers {
		s.idle <- &conn{}
	}
	return s, notes, nil
}

// makeServer makes the tables of a new database, with its settings.
func (s *Store) makeServer(ctx context.Context, o Options) error {
	d := o.Domain
	d.TrustDomain = cmp.Or(d.TrustDomain, "attestd.local")
	d.Service = cmp.Or(d.Service, "service")
	if err := d.Check(); err != nil {
		return err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never returns an error
	settings := map[string]string{"service_name": d.Service, "trust_domain": d.TrustDomain, "database_id": hex.EncodeToString(id[:])}
	if o.Master != nil {
		for name, value := range newSealing(*o.Master, newLookupKey()) {
			settings[name] = value
		}
	}
	return postgres.Create(ctx, s.db, settings)
}

func (s *Store) readServerSettings(ctx context.Context) error {
	values := map[string]string{}
	err := s.read(ctx, func(c *conn) error {
		clear(values)
		return c.each(func(rows *sql.Rows) error {
			var name, value string
			err := rows.Scan(&name, &value)
			values[name] = value
			return err
		}, "SELECT name, value FROM setting")
	})
	if err == nil {
		s.settings, err = parseSettings(values)
	}
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	s.schema.Store(schemaVersion)
	return nil
}
