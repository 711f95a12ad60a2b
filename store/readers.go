package store

import (
	"context"
	"fmt"
	"time"

	"attestd/store/sqlite"
)

// readers is the number of connections that read.
const readers = 8

func (s *Store) openReaders(ctx context.Context, path string, mode sqlite.Mode) (err error) {
	if s.db, err = sqlite.Open(path, mode); err != nil {
		return err
	}
	for range readers {
		c, err := dial(ctx, s.db)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		s.idle <- c
		// SQLite opens the log at the first read: now, while it is the one that belongs to the
		// file.
		if err := c.one([]any{new(int64)}, "PRAGMA data_version"); err != nil && mode == sqlite.ModeReader {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// read runs fn on a connection of the reader pool.
func (s *Store) read(ctx context.Context, fn func(*conn) error) error {
	select {
	case c := <-s.idle:
		defer func() { s.idle <- c }()
		defer c.under(ctx)()
		if s.isPostgres {
			return s.readServer(ctx, c, fn)
		}
		return s.readFile(ctx, c, fn)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readFile runs fn on a connection to a file, and once more where SQLite calls that corrupt and
// nothing was read yet.
func (s *Store) readFile(ctx context.Context, c *conn, fn func(*conn) error) error {
	c.yielded = false
	read := func() error {
		if err := s.lookSchema(c); err != nil {
			return err
		}
		return fn(c)
	}
	err := read()
	if isDamage(err) && !c.yielded {
		err = read()
	}
	switch {
	case !isDamage(err):
		return err
	case s.writer == nil:
		return sqlite.ReadError(ctx, s.path, err)
	}
	return s.damaged(err) // a server has no time to read the whole file for an answer
}

// lookSchema notices that a server has upgraded a file that was opened for reading.
func (s *Store) lookSchema(c *conn) error {
	if s.schema.Load() == schemaVersion {
		return nil
	}
	var now int64
	err := c.one([]any{&now}, "PRAGMA user_version")
	if err == nil {
		s.schema.Store(now)
	}
	return err
}

// checkExternalWrite is called by the writer with what it has found: whether someone else has
// written the file. What lookups under way put back then was read afterwards.
func (s *Store) checkExternalWrite(now time.Time, external bool) {
	if external {
		s.forget()
		s.doubt.raise()
	}
	s.externalChecked.Store(&now)
}

// forget drops all that was remembered of the file, for someone else has written it.
func (s *Store) forget() {
	s.companies.forget()
	s.chains.forget()
	s.forgetTokens()
	s.revokedTokens.forget()
	s.passports.forget()
	s.agentKeys.forget()
	s.tokenKeys.forget()
	s.federations.forget()
	s.policies.forget()
	s.requesters.forget()
	s.exchanges.forget()
	s.suspensions.forget()
	s.limits.forget()
	s.sessions.forget()
	s.agents.forget()
	s.clients.forget()
}
