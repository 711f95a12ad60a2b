package store

import (
	"context"
	"fmt"
)

// View is what can be read of the database: by a Store as it is at each call, by Snapshot as it is
// at one moment. It implements chain.Reader.
type View struct {
	store *Store
	conn  *conn // of a snapshot; nil where each call takes one of the pool
}

// read runs fn on the connection of the snapshot, or on one of the pool.
func (v *View) read(ctx context.Context, fn func(*conn) error) error {
	if v.conn == nil {
		return v.store.read(ctx, fn)
	}
	defer v.conn.under(ctx)()
	return fn(v.conn)
}

// Snapshot calls fn with the database as it is at one moment: what others commit meanwhile, fn does
// not see. fn MUST return soon, for it holds a connection of the pool, and on SQLite keeps the
// write-ahead log from being moved; it MUST NOT call the Store, which would take another
// connection, nor keep the View. fn runs once more where the connection was lost before anything
// was read, so it sets what it returns and never adds to it.
func (s *Store) Snapshot(ctx context.Context, fn func(*View) error) error {
	return s.read(ctx, func(c *conn) (err error) {
		if _, err := c.exec(c.dialect.snapshot); err != nil {
			return fmt.Errorf("begin a snapshot: %w", err)
		}
		// also where fn panics, or the connection would see that moment for ever
		defer func() {
			defer c.under(context.WithoutCancel(ctx))()
			if _, end := c.exec("ROLLBACK"); end != nil && err == nil {
				err = fmt.Errorf("end a snapshot: %w", end)
			}
		}()
		return fn(&View{s, c})
	})
}

// CompanyNow reads the company with a number, and the keys that it has at the moment of the view;
// ErrNotFound.
func (v *View) CompanyNow(ctx context.Context, number int64) (*Company, error) {
	c, err := v.loadCompany(ctx, "company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}
