package store

import (
	"cmp"
	"context"
	"errors"

	"attestd/store/db"
)

// openServer opens a PostgreSQL database for serving, possibly with other servers, and creates
// missing tables.
func openServer(ctx context.Context, address string, o Options) (_ *Store, err error) {
	d, notes, err := db.DialPostgres(address)
	if err != nil {
		return nil, err
	}
	s := newStore(d)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if o.Heads != "" {
		if o.Heads, err = db.Absolute(o.Heads); err != nil {
			return nil, err
		}
	}
	s.opened = o
	err = s.Identify(ctx)
	if s.base.isNew = errors.Is(err, db.ErrNotFound); s.base.isNew {
		if err = refuseWithoutDatabase(s.Path(), o.Heads); err == nil {
			err = s.Create(ctx, "", o.Domain, o.Master)
		}
		if err == nil {
			err = s.Identify(ctx)
		}
	}
	if err == nil {
		err = s.Unseal(o.Master)
	}
	if err != nil {
		return nil, err
	}
	if err := s.Belongs(o.Domain); err != nil {
		return nil, err
	}
	s.base.logHost = cmp.Or(o.LogHost, s.Domain().TrustDomain)
	risks, err := s.Risks(ctx)
	if err != nil {
		return nil, err
	}
	s.base.notices = append(s.base.notices, risks...)
	if err := s.OpenPostgres(notes, s.Tables.obeyedLimits); err != nil {
		return nil, err
	}
	return s, s.openKnown(ctx, o.Heads)
}

// readServer opens a PostgreSQL database for reading.
func readServer(ctx context.Context, address string) (_ *Store, err error) {
	d, _, err := db.DialPostgres(address)
	if err != nil {
		return nil, err
	}
	s := newStore(d)
	if err = s.Identify(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.Readable()
	return s, nil
}
