package store

import (
	"context"
	"fmt"
)

// View reads the database: a Store at the time of each call, and Snapshot at one moment. It
// implements chain.Reader.
type View struct {
	store *Store
	conn  *conn // connection of a snapshot; nil if each call uses one of the pool
}

// read runs fn on the snapshot's connection, or on one of the pool.
func (v *View) read(ctx context.Context, fn func(*conn) error) error {
	if v.conn == nil {
		return v.store.read(ctx, fn)
	}
	defer v.conn.under(ctx)()
	return fn(v.conn)
}

// Snapshot calls fn with a snapshot of the database, which hides concurrent commits. fn MUST return
// soon, because it holds a connection of the pool, and on SQLite blocks checkpoints. It MUST NOT
// call the Store, which would use another connection, nor retain the View. If the connection is
// lost before the first read, fn runs again, so it MUST set its results and not add to them.
func (s *Store) Snapshot(ctx context.Context, fn func(*View) error) error {
	return s.read(ctx, func(c *conn) (err error) {
		if _, err := c.exec(c.dialect.snapshot); err != nil {
			return fmt.Errorf("begin a snapshot: %w", err)
		}
		// also if fn panics, or the connection would keep the snapshot forever
		defer func() {
			defer c.under(context.WithoutCancel(ctx))()
			if _, end := c.exec("ROLLBACK"); end != nil && err == nil {
				err = fmt.Errorf("end a snapshot: %w", end)
			}
		}()
		return fn(&View{s, c})
	})
}

// CompanyNow reads a company by its number, with its keys at the moment of the view. It returns
// ErrNotFound for an unknown number.
func (v *View) CompanyNow(ctx context.Context, number int64) (*Company, error) {
	c, err := v.loadCompany(ctx, "company.id = ?", number)
	if err != nil {
		return nil, fmt.Errorf("company of chain %d: %w", number, err)
	}
	return c, nil
}
