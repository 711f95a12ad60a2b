package db

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
)

// listBatch is the number of rows per read. Short reads keep memory bounded for a list of any
// length, and a slow consumer does not block WAL checkpoints.
const listBatch = 64

// List yields the items that scan makes of the rows of a query, in batches, until a batch is empty.
// after returns the query's arguments for the last item, at first the zero value; what names the
// items in errors.
func List[T any](
	ctx context.Context, d *DB, what string, scan func(*sql.Rows) (T, error), query string,
	after func(last T) []any,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last T
		for {
			var batch []T
			err := d.Read(ctx, func(r *Conn) error {
				return r.Each(func(rows *sql.Rows) error {
					item, err := scan(rows)
					batch = append(batch, item)
					return err
				}, query+" LIMIT ?", append(after(last), listBatch)...)
			})
			if err != nil {
				var none T
				yield(none, fmt.Errorf("list %s: %w", what, err))
				return
			}
			if len(batch) == 0 {
				return
			}
			for _, item := range batch {
				if !yield(item, nil) {
					return
				}
			}
			last = batch[len(batch)-1]
		}
	}
}

// Row scans the only row of a query, or returns ErrNotFound.
func Row[T any](c *Conn, scan func(*sql.Rows) (T, error), query string, args ...any) (v T, err error) {
	found := false
	err = c.Each(func(rows *sql.Rows) error {
		found = true
		v, err = scan(rows)
		return err
	}, query, args...)
	if err == nil && !found {
		err = ErrNotFound
	}
	return v, err
}

// All reads all rows of a query.
func All[T any](c *Conn, scan func(*sql.Rows) (T, error), query string, args ...any) (rows []T, err error) {
	err = c.Each(func(r *sql.Rows) error {
		row, err := scan(r)
		rows = append(rows, row)
		return err
	}, query, args...)
	return rows, err
}
