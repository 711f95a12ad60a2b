package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"attestd/chain"
	"attestd/store"
	"attestd/store/db"
)

// MoveOptions are the options of Move.
type MoveOptions struct {
	// head file of the source, if it exists; "" for none
	Heads    string
	Progress func(stage string, done, total int64) // in records; may be nil
}

// Moved is the result of Move. Digest is computed over the digests of the tables, in order: the
// same rows have the same digest on every engine.
type Moved struct {
	Companies, Records, Rows int64
	Tables                   []MovedTable
	Digest                   string
}

// MovedTable is a table with the number of its rows and the SHA-256 over them, in the order of
// their keys.
type MovedTable struct {
	Name   string
	Rows   int64
	Digest string
}

// errDiffers means that a read of the copy returned something other than what was written.
var errDiffers = errors.New("the copy differs from the source")

// Move copies a database to a new file or an empty PostgreSQL database, and leaves the source
// unchanged. The source cannot be written meanwhile. Move verifies all chains of the source, and
// then all chains of the target, where it also compares every row of every table. The target
// appears only after that, so an error or the end of the process leaves nothing. Keys are copied as
// they are, sealed or in plaintext.
//
// It returns ErrInUse if the source is served, ErrRefused if the target is not empty or the source
// has an older schema, a *VerifyError or ErrCorrupt if the source does not verify, ErrRolledBack if
// it is behind its head file, and the errors of Open.
func Move(ctx context.Context, from, to, schema string, o MoveOptions) (m Moved, err error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	tables, err := movedTables(ctx, schema)
	if err != nil {
		return m, fmt.Errorf("schema of this program: %w", err)
	}
	err = fromRest(ctx, from, tables, func(source *store.Store, rows *db.Conn, unchanged func() error) error {
		if err := sound(ctx, source, from, schema, o); err != nil {
			return fmt.Errorf("%s: %w", db.Name(from), err)
		}
		return intoEmpty(ctx, to, schema, func(target *store.Store, into filling) error {
			if m, err = copyTables(ctx, rows, into, tables, o.Progress); err != nil {
				return err
			}
			if err := target.Filled(ctx); err != nil {
				return err
			}
			if err := target.VerifyContents(ctx, runtime.GOMAXPROCS(0), stage(o, "verify the copy")); err != nil {
				return fmt.Errorf("%w: %w", errDiffers, err)
			}
			if err := compareTables(ctx, into.Conn, tables, m); err != nil {
				return err
			}
			waiting, err := store.ReadUnrecorded(rows)
			if err == nil {
				err = store.LeaveUnrecorded(into.Conn, append(waiting, unrecordedMove(from, to, m.Digest, time.Now()))...)
			}
			if err != nil {
				return err
			}
			return unchanged()
		})
	})
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return Moved{}, fmt.Errorf("move: %w", err)
	}
	return m, nil
}

func stage(o MoveOptions, name string) func(done, total int64) {
	return func(done, total int64) { o.Progress(name, done, total) }
}

// sound verifies a source like a backup.
func sound(ctx context.Context, s *store.Store, name, schema string, o MoveOptions) error {
	if o.Heads != "" { // the copy of a rolled-back database would look like any other
		if err := s.Rollback.Check(ctx, o.Heads); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.VerifyContents(ctx, runtime.GOMAXPROCS(0), stage(o, "verify")); err != nil {
		return err
	}
	if db.IsPostgres(name) {
		return s.Check(ctx, schema)
	}
	return CheckFile(ctx, s, schema)
}

// unrecordedMove returns the pending control record about a move.
func unrecordedMove(from, to, digest string, at time.Time) store.Unrecorded {
	return store.Unrecorded{Action: store.DatabaseMoved, Subject: store.SubjectDatabase,
		Details: map[string]any{"from": engine(from), "to": engine(to), "digest": digest, "movedAt": chain.FormatTime(at)}}
}

func engine(name string) string {
	if db.IsPostgres(name) {
		return "PostgreSQL"
	}
	return "file"
}

// copyTables copies the rows of all tables, and returns their counts and digests.
func copyTables(
	ctx context.Context, from *db.Conn, into filling, tables []movedTable,
	progress func(string, int64, int64),
) (m Moved, err error) {
	var total int64
	if err := from.One([]any{&total, &m.Companies}, `SELECT (SELECT coalesce(sum(length), 0)
		FROM head), (SELECT count(*) FROM company WHERE id < ?)`, int64(db.Installation)); err != nil {
		return m, err
	}
	whole := newRowDigest()
	for _, t := range tables {
		d := newRowDigest()
		report := func() {}
		if t.name == "record" {
			report = func() { progress("copy records", d.rows, total) }
		}
		if err := into.fill(ctx, t, t.rows(ctx, from, d, report)); err != nil {
			return m, fmt.Errorf("copy table %s: %w", t.name, err)
		}
		done := MovedTable{t.name, d.rows, d.sum()}
		if t.name == "record" {
			m.Records = d.rows
		}
		m.Rows += d.rows
		m.Tables = append(m.Tables, done)
		whole.add([]any{done.Name, done.Rows, done.Digest})
	}
	m.Digest = whole.sum()
	return m, nil
}

// compareTables reads the copied rows back, and compares their digests.
func compareTables(ctx context.Context, c *db.Conn, tables []movedTable, m Moved) error {
	for i, t := range tables {
		d := newRowDigest()
		for _, err := range t.rows(ctx, c, d, func() {}) {
			if err != nil {
				return fmt.Errorf("read table %s back: %w", t.name, err)
			}
		}
		if have := (MovedTable{t.name, d.rows, d.sum()}); have != m.Tables[i] {
			return fmt.Errorf("%w: table %s has %d rows with digest %s, and had %d with %s", errDiffers, t.name, have.Rows,
				have.Digest, m.Tables[i].Rows, m.Tables[i].Digest)
		}
	}
	return nil
}
