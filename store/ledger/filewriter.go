package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"attestd/chain"
	"attestd/store/atrest"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// fileWriter is the storage of a file: the one connection that writes it.
type fileWriter struct {
	*writer
	pool *sql.DB
	// called for each transaction before it writes; external says that someone else has written the
	// file
	checked func(now time.Time, external bool)

	// SQLite's data_version as conn saw it last; it differs when another connection has committed
	version int64
	files   *sqlite.Files
	rescued bool // see rescue

	path    string
	damaged func(error) error // see Ledger.damaged
	// a transaction was begun again for damage, and none was durable since
	reread  bool
	doubted atomic.Bool // the next transaction compares the whole log with its copy first
	begun   bool        // a transaction was begun
	failed  error       // why the last transaction was lost to the disk; see fail
	probed  time.Time
}

func newFileWriter(ctx context.Context, pool *sql.DB, path string, x atrest.Secrets, u *LastUsed, d *NameDoubt, checked func(time.Time, bool), damaged func(error) error) (*fileWriter, error) {
	w := &fileWriter{writer: newWriter(x, u, d), pool: pool, checked: checked, path: path, damaged: damaged}
	var err error
	if w.conn, err = db.Dial(ctx, pool); err != nil {
		return nil, err
	}
	// This reads the file, so that SQLite has opened the write-ahead log too.
	if err = w.conn.One([]any{&w.version}, "PRAGMA data_version"); err == nil {
		w.files, err = sqlite.OpenFiles(path)
	}
	if err == nil {
		err = w.disableAutoCheckpoint(w.conn)
	}
	if err != nil {
		w.hangUp()
		return nil, err
	}
	return w, nil
}

// Begin implements chain.Storage, on a new connection where the old one cannot.
func (w *fileWriter) Begin(now time.Time) (_ chain.Transaction, external bool, err error) {
	if err := w.mayBegin(); err != nil {
		return nil, false, err
	}
	look := w.look
	if w.doubted.Swap(false) {
		look = w.check
	}
	if err := look(); err != nil {
		return nil, false, err
	}
	if w.conn == nil {
		c, err := db.Dial(context.Background(), w.pool)
		if err == nil {
			err = w.disableAutoCheckpoint(c)
		}
		if err != nil {
			return nil, false, err
		}
		w.conn = c
		// restarts on each connection: what was written in between cannot be distinguished
		w.version = -1
	}
	c := w.conn
	c.OnDamage = w.retryOnDamage
	w.rekeyed = nil
	w.updateQuotas()
	w.summaries.Drop() // what the previous transaction has not stored
	if _, err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		c.Fatal = nil
		if sqlite.ClassOf(err) != sqlite.Busy {
			w.hangUp()
		}
		return nil, false, err
	}
	tx := &transaction{Conn: c, w: w, now: now}
	var version int64
	if err = c.One([]any{&version}, "PRAGMA data_version"); err == nil {
		if external = version != w.version; external {
			w.version = version
			w.clock.Known, w.used.known = false, false
			w.summaries.Clear()
		}
		if w.checked(now, external); external {
			w.doubt.raise()
		}
		err = w.clock.Check(c, now)
	}
	if err == nil {
		tx.keyTime, tx.leapt, err = w.keyClock.Now(c, now)
	}
	if err != nil {
		tx.Rollback()
		return nil, external, err
	}
	if !w.begun {
		newest, _ := db.ParseTime(w.clock.Newest) // zero where there is none
		w.doubt.begin(db.Later(now, newest))
		w.begun = true
	}
	return tx, external, nil
}

// disableAutoCheckpoint prevents SQLite from moving the log into the database by itself, where the
// writer can check the log before; see committed.
func (w *fileWriter) disableAutoCheckpoint(c *db.Conn) error {
	if !w.files.HasLogCopy() {
		return nil
	}
	return c.One([]any{new(int)}, "PRAGMA wal_autocheckpoint = 0")
}

func (w *fileWriter) changing() (*db.Conn, error) { return w.conn, nil }

// hangUp closes the connection, which rolls back whatever it had open.
func (w *fileWriter) hangUp() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// close moves the write-ahead log into the file and closes the connection. No reader may be open.
func (w *fileWriter) close() (err error) {
	if w.conn != nil {
		var busy, pages, moved int
		err = w.conn.One([]any{&busy, &pages, &moved}, "PRAGMA wal_checkpoint(TRUNCATE)")
		// the log still has what could not be moved into the file
		err = sqlite.ReadError(context.Background(), w.path, err)
		w.hangUp()
	}
	return errors.Join(err, w.pool.Close(), w.files.Close())
}

// retryOnDamage makes a transaction that meets damage run again, once.
func (w *fileWriter) retryOnDamage(err error) error {
	if !w.reread {
		w.reread = true
		return fmt.Errorf("%w: %w", chain.ErrTransactionLost, err)
	}
	return w.damaged(err)
}
