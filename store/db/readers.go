package db

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/store/postgres"
	"attestd/store/sqlite"
)

// readers is the number of connections that read.
const readers = 8

func (d *DB) OpenReaders(ctx context.Context, mode sqlite.Mode) (err error) {
	if d.pool, err = sqlite.Open(d.path, mode); err != nil {
		return err
	}
	for range readers {
		c, err := Dial(ctx, d.pool)
		if err != nil {
			return fmt.Errorf("%s: %w", d.path, err)
		}
		d.idle <- c
		// SQLite opens the log at the first read: now, while it is the one that belongs to the
		// file.
		if err := c.One([]any{new(int64)}, "PRAGMA data_version"); err != nil && mode == sqlite.ModeReader {
			return fmt.Errorf("%s: %w", d.path, err)
		}
	}
	return nil
}

// Read runs fn on a connection of the reader pool.
func (d *DB) Read(ctx context.Context, fn func(*Conn) error) error {
	select {
	case c := <-d.idle:
		defer func() { d.idle <- c }()
		defer c.under(ctx)()
		if d.isPostgres {
			return d.readServer(ctx, c, fn)
		}
		return d.readFile(ctx, c, fn)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readFile runs fn on a connection to a file, and once more where SQLite calls that corrupt and
// nothing was read yet.
func (d *DB) readFile(ctx context.Context, c *Conn, fn func(*Conn) error) error {
	c.yielded = false
	read := func() error {
		if err := d.lookSchema(c); err != nil {
			return err
		}
		return fn(c)
	}
	err := read()
	if IsDamage(err) && !c.yielded {
		err = read()
	}
	switch {
	case !IsDamage(err):
		return err
	case d.onDamage == nil:
		return sqlite.ReadError(ctx, d.path, err)
	}
	return d.onDamage(err) // a server has no time to read the whole file for an answer
}

// lookSchema notices that a server has upgraded a file that was opened for reading.
func (d *DB) lookSchema(c *Conn) error {
	if d.schema.Load() == SchemaVersion {
		return nil
	}
	var now int64
	err := c.One([]any{&now}, "PRAGMA user_version")
	if err == nil {
		d.schema.Store(now)
	}
	return err
}

// Checked records that the writer of a file has checked for external writes at a time. After one,
// the caches are emptied first: what running lookups then store was read afterwards.
func (d *DB) Checked(now time.Time, external bool) {
	if external {
		d.Forget()
	}
	d.externalChecked.Store(&now)
}

// Forget drops all that was remembered of the database, for someone else has written it.
func (d *DB) Forget() {
	for _, forget := range d.caches {
		forget()
	}
}

// readServer runs fn on a connection of the pool. Where that has been lost before anything was read
// on it, fn runs once more on another. A connection that its caller's context has ended says
// nothing about the others.
func (d *DB) readServer(ctx context.Context, c *Conn, fn func(*Conn) error) (err error) {
	for again := true; ; again = false {
		if c.SQL == nil || c.generation != d.lost.Load() {
			if err := d.redial(ctx, c); err != nil {
				return err
			}
		}
		c.yielded = false
		err = fn(c)
		if c.Fatal == nil {
			return err
		}
		// the others were lost with it, most often
		d.lost.CompareAndSwap(c.generation, c.generation+1)
		if !again || c.yielded || !errors.Is(c.Fatal, chain.ErrTransactionLost) {
			return err
		}
	}
}

// readSilence is how long a read waits for its first row, or the next one.
const readSilence = 15 * time.Second

// redial gives c another connection.
func (d *DB) redial(ctx context.Context, c *Conn) error {
	if c.SQL != nil {
		_ = c.SQL.Close()
	}
	generation := d.lost.Load()
	fresh, err := postgres.ConnectReader(ctx, d.pool, readSilence)
	c.SQL = nil
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	*c = *newConn(fresh, postgresDialect)
	c.ctx, c.generation = ctx, generation
	return nil
}
