package db

import (
	"context"
	"fmt"
)

// Source reads a database: at the time of each call, or at the one moment of a snapshot.
type Source struct {
	db   *DB
	conn *Conn // connection of a snapshot; nil if each call uses one of the pool
}

// NewSource returns the Source that reads at the time of each call.
func NewSource(d *DB) Source { return Source{db: d} }

// Read runs fn on the snapshot's connection, or on one of the pool.
func (s *Source) Read(ctx context.Context, fn func(*Conn) error) error {
	if s.conn == nil {
		return s.db.Read(ctx, fn)
	}
	defer s.conn.under(ctx)()
	return fn(s.conn)
}

// Since returns the form of a part of a statement for the file's schema: now from schema on, and
// before for older files, which are only read.
func (s *Source) Since(schema int64, now, before string) string {
	if s.db.schema.Load() < schema {
		return before
	}
	return now
}

// Schema is the version of the schema that the database has.
func (s *Source) Schema() int64 { return s.db.Schema() }

// Snapshot calls fn with a snapshot of the database, which hides concurrent commits. fn MUST return
// soon, because it holds a connection of the pool, and on SQLite blocks checkpoints. It MUST NOT
// use another connection. If the connection is lost before the first read, fn runs again, so it
// MUST set its results and not add to them.
func (d *DB) Snapshot(ctx context.Context, fn func(Source) error) error {
	return d.Read(ctx, func(c *Conn) (err error) {
		if _, err := c.Exec(c.dialect.snapshot); err != nil {
			return fmt.Errorf("begin a snapshot: %w", err)
		}
		// also if fn panics, or the connection would keep the snapshot forever
		defer func() {
			defer c.under(context.WithoutCancel(ctx))()
			if _, end := c.Exec("ROLLBACK"); end != nil && err == nil {
				err = fmt.Errorf("end a snapshot: %w", end)
			}
		}()
		return fn(Source{d, c})
	})
}

// The first schemas with what is read otherwise in a file of an older one.
const (
	LogTrees = 3
	// with the table company_key; in older schemas a company has one key, in its row
	KeysSchema = 4
	// with the fingerprints of credentials in addition to their hashes, which may be HMACs since
	FingerprintSchema = 5
	TwoLogs           = 6  // a control log for each company
	WitnessSchema     = 7  // the state of a cosigner
	QuotaSchema       = 18 // heads count bytes
)

// OfOneLog returns the SQL for a table of chains in a file from before twoLogs, where a company has
// only its action log.
func OfOneLog(table string) string { return "(SELECT *, company AS chain FROM " + table + ")" }
