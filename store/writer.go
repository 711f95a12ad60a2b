package store

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"attestd/chain"
)

// RunOptions are what a server brings to the writing of a Store.
type RunOptions struct {
	Publish     func(batch []chain.Extension, external bool) // see chain.Log.Run; nil when nobody listens
	Now         func() time.Time                             // the clock of the records; nil is time.Now
	AcceptClock bool                                         // what the clock says at the start is right, however long after the newest time in the file
	Log         *slog.Logger                                 // hears of a changed file, once; nil when nobody does
}

// Run makes durable what is written, by all methods of s, until ctx is done or Close is called; then it answers all that waits and
// returns nil. The server starts it and stops it after the last request; nobody else writes the file. Call it once.
func (s *Store) Run(ctx context.Context, o RunOptions) error {
	if s.writer == nil {
		return errReadOnly
	}
	if o.Publish == nil {
		o.Publish = func([]chain.Extension, bool) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log != nil {
		s.writer.logger = o.Log
	}
	if o.AcceptClock {
		s.writer.clock.advance(o.Now())
	}
	return s.log.Run(ctx, o.Now, o.Publish)
}

var errReadOnly = fmt.Errorf("%w: the database is open for reading only", ErrRefused)

// Append returns a record once it is durable. An error says that nothing was written, unless it is ErrUnknown.
func (s *Store) Append(ctx context.Context, d chain.Draft) (chain.Record, error) {
	if s.writer == nil {
		return chain.Record{}, errReadOnly
	}
	return s.log.Append(ctx, d)
}

// change makes rows durable, and with them the records of the drafts that it asks for; see chain.Log.Write for what rows must heed.
func (s *Store) change(ctx context.Context, rows func(*conn) ([]chain.Draft, error)) ([]chain.Record, error) {
	if s.writer == nil {
		return nil, errReadOnly
	}
	return s.log.Write(ctx, func() ([]chain.Draft, error) { return rows(s.writer.conn) })
}

// write is change without records.
func (s *Store) write(ctx context.Context, rows func(*conn) error) error {
	_, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) { return nil, rows(w) })
	return err
}

// Ready returns nil when a write could be made now; else the error that it would meet.
func (s *Store) Ready(ctx context.Context) error {
	return s.write(ctx, func(*conn) error { return nil })
}

// writer is the chain.Storage of a Store: the one connection that writes. The goroutine of Run owns it from its start to its end.
type writer struct {
	db     *sql.DB
	uses   *uses
	forget func() // called when someone else has written the file, before anything more is written
	logger *slog.Logger

	conn    *conn // nil after it was hung up
	version int64 // SQLite's data_version as conn saw it last; it differs when another connection has committed
	files   *files
	rescued bool // see rescue
	clock   clock
}

func newWriter(ctx context.Context, db *sql.DB, path string, u *uses, forget func()) (*writer, error) {
	w := &writer{db: db, uses: u, forget: forget, logger: slog.New(slog.DiscardHandler)}
	var err error
	if w.conn, err = dial(ctx, db); err != nil {
		return nil, err
	}
	// This reads the file, so that SQLite has opened the write-ahead log too.
	if err = w.conn.one([]any{&w.version}, "PRAGMA data_version"); err == nil {
		w.files, err = openFiles(path)
	}
	if err != nil {
		w.hangUp()
		return nil, err
	}
	return w, nil
}

// Begin implements chain.Storage, on a new connection where the old one cannot.
func (w *writer) Begin(now time.Time) (_ chain.Transaction, external bool, err error) {
	if err := w.check(); err != nil {
		return nil, false, err
	}
	if w.conn == nil {
		c, err := dial(context.Background(), w.db)
		if err != nil {
			return nil, false, err
		}
		w.conn = c
		w.version = -1 // counts anew on each connection: what was written in between cannot be told apart
	}
	c := w.conn
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		c.fatal = nil
		if !isBusy(err) {
			w.hangUp()
		}
		return nil, false, err
	}
	tx := &transaction{conn: c, w: w, now: now}
	var version int64
	if err = c.one([]any{&version}, "PRAGMA data_version"); err == nil {
		if external = version != w.version; external {
			w.version = version
			w.clock.known = false
			w.forget()
		}
		err = w.clock.check(c, now)
	}
	if err != nil {
		tx.Rollback()
		return nil, external, err
	}
	return tx, external, nil
}

// hangUp closes the connection, which rolls back whatever it had open.
func (w *writer) hangUp() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// close moves the write-ahead log into the file and closes the connection. No reader may be open.
func (w *writer) close() (err error) {
	if w.conn != nil {
		var busy, pages, moved int
		err = w.conn.one([]any{&busy, &pages, &moved}, "PRAGMA wal_checkpoint(TRUNCATE)")
		w.hangUp()
	}
	return errors.Join(err, w.db.Close(), w.files.close())
}

// transaction implements chain.Transaction.
type transaction struct {
	*conn
	w   *writer
	now time.Time
}

// Head implements chain.Transaction.
func (tx *transaction) Head(number int64) (h chain.Head, key ed25519.PrivateKey, err error) {
	var root, frontier, seed []byte
	err = tx.one([]any{&h.Length, &root, &frontier, &h.Timestamp, &seed}, `SELECT length, root, frontier, timestamp, seed
		FROM head JOIN company ON company.id = head.company WHERE head.company = ?`, number)
	if errors.Is(err, ErrCorrupt) {
		tx.fatal = nil // damage that a read has met is no reason to refuse other chains
	}
	if errors.Is(err, ErrNotFound) {
		err = chain.ErrMissing
	}
	if err == nil && len(seed) != ed25519.SeedSize {
		err = fmt.Errorf("%w: a key of %d bytes", ErrCorrupt, len(seed))
	}
	if err != nil {
		return chain.Head{}, nil, err
	}
	h.Frontier = splitHashes(frontier)
	fill(h.Root[:], root)
	return h, ed25519.NewKeyFromSeed(seed), nil
}

// Savepoint implements chain.Transaction.
func (tx *transaction) Savepoint(rows func() error) error {
	if _, err := tx.exec("SAVEPOINT change"); err != nil {
		return err
	}
	err := rows()
	if err != nil {
		tx.exec("ROLLBACK TO change") // its own failure is in tx.fatal
	}
	tx.exec("RELEASE change")
	return err
}

// Err implements chain.Transaction. What a full disk or a bad one does to a statement, SQLite may do to the whole transaction.
func (tx *transaction) Err() error { return tx.fatal }

// Commit implements chain.Transaction.
func (tx *transaction) Commit() error {
	if tx.fatal == nil {
		_ = tx.w.uses.write(tx.conn) // an error that matters is in tx.fatal
	}
	if tx.fatal != nil {
		defer tx.Rollback()
		return tx.fatal
	}
	if _, err := tx.exec("COMMIT"); err != nil {
		tx.Rollback()
		if certain(err) || tx.overwrite() == nil {
			return err
		}
		return fmt.Errorf("%w: commit: %w", ErrUnknown, err)
	}
	// A commit into a file that is no longer where the next start looks for it is lost to that.
	if err := tx.w.check(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	tx.w.clock.advance(tx.now)
	return nil
}

// certain says of an error of COMMIT that nothing can be left of the transaction. SQLITE_BUSY comes before anything is written. SQLITE_FULL
// comes from a write: the frame that makes a transaction one comes last and holds a checksum of itself and all before it, so one
// that was cut short never counts. A sync that found no room is no SQLITE_FULL but an I/O error, after which all frames may be there.
func certain(err error) bool {
	code := resultCode(err) & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_FULL
}

// overwrite makes the outcome of a commit that failed certain again, where the disk lets it. SQLite forgets such a transaction, but
// its frames may stand in the write-ahead log, and the next process would find them there. The next commit writes its own frames in
// their place: once that is durable, the lost ones are gone for good.
func (tx *transaction) overwrite() error {
	_, err := tx.exec("BEGIN IMMEDIATE")
	if err == nil {
		_, err = tx.exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)) // writes a page, and changes nothing
	}
	if err == nil {
		_, err = tx.exec("COMMIT")
	}
	if err != nil {
		tx.Rollback()
	}
	return err
}

// Rollback implements chain.Transaction. Its own error is of no use: where SQLite has rolled back by itself there is nothing to end, and
// where the transaction stays open the next Begin finds that.
func (tx *transaction) Rollback() {
	tx.exec("ROLLBACK")
	tx.fatal = nil
}
