package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// writer commits the writes of many callers together: a sync costs the same for one as for a hundred.
//
// There is no goroutine and no timer. A caller queues its job, then waits for whichever comes first, its answer or the turn. Who
// gets the turn is the leader: it takes all that is queued by now, runs it in one transaction, answers everybody and passes the
// turn on. While a leader waits for the disk, the next batch gathers by itself.
//
//	A  queue, turn: BEGIN a COMMIT, answer a
//	B       queue ························· turn: BEGIN b c COMMIT, answer b and c
//	C             queue ···················································answered
type writer struct {
	db      *sql.DB
	foreign func()        // called when someone else has written the file, before any job sees it
	turn    chan struct{} // capacity 1: whoever has put its token in is the leader

	mu    sync.Mutex
	queue []*job

	// Owned by the leader.
	conn    *conn // nil after it was hung up
	version int64 // SQLite's data_version as conn saw it last; it differs when another connection has committed
	others  int   // how often it differed
}

// job is one caller's write. It is answered exactly once, after the commit.
type job struct {
	run    func(*conn) error
	err    error
	answer chan error
}

func newWriter(ctx context.Context, db *sql.DB, foreign func()) (*writer, error) {
	w := &writer{db: db, foreign: foreign, turn: make(chan struct{}, 1)}
	c, err := dial(ctx, db)
	if err != nil {
		return nil, err
	}
	w.conn = c
	return w, c.one([]any{&w.version}, "PRAGMA data_version")
}

// do runs fn inside a transaction and returns when that is durable. An error of fn undoes what fn did and nothing else. Any other
// error says that nothing in the transaction is acknowledged; a commit that failed may still have reached the disk.
func (w *writer) do(fn func(*conn) error) error {
	j := &job{run: fn, answer: make(chan error, 1)}
	w.mu.Lock()
	w.queue = append(w.queue, j)
	w.mu.Unlock()

	select {
	case err := <-j.answer:
		return err
	case w.turn <- struct{}{}:
	}
	defer func() { <-w.turn }()

	// A leader answers all that it took before it passes the turn on: j is either answered by now or still in the queue.
	select {
	case err := <-j.answer:
		return err
	default:
	}
	w.mu.Lock()
	batch := w.queue
	w.queue = nil
	w.mu.Unlock()
	w.commit(batch)
	return <-j.answer
}

var errPanicked = fmt.Errorf("%w: a write panicked", ErrUnavailable)

// commit runs a batch and answers it. A transaction that fails, fails for everybody, also for the jobs with an error of their own:
// a key may have been refused deletion as the last one only for what another job of the lost transaction had done.
func (w *writer) commit(batch []*job) {
	err := errPanicked // stays so when a job panics, which then goes on up to the leader's caller
	defer func() {
		if err == errPanicked {
			w.hangUp()
		}
		for _, j := range batch {
			if err != nil {
				j.err = err
			}
			j.answer <- j.err
		}
	}()
	err = w.transact(batch)
}

func (w *writer) transact(batch []*job) error {
	c, err := w.begin()
	if err != nil {
		return err
	}
	for _, j := range batch {
		// What a full disk or a bad one does to a statement, SQLite may do to the whole transaction. To go on then would
		// be to run, and commit, the rest of the batch without what went before.
		if j.err = savepoint(c, j.run); c.fatal != nil {
			return rollback(c)
		}
	}
	if _, err := c.exec("COMMIT"); err != nil {
		return rollback(c)
	}
	return nil
}

// savepoint runs fn so that its error undoes only what fn did.
func savepoint(c *conn, fn func(*conn) error) error {
	if _, err := c.exec("SAVEPOINT job"); err != nil {
		return err
	}
	err := fn(c)
	if err != nil {
		c.exec("ROLLBACK TO job") // its own failure is in c.fatal
	}
	c.exec("RELEASE job")
	return err
}

// rollback ends a transaction that went wrong and returns what went wrong. Its own error is of no use: where SQLite has rolled back
// by itself there is nothing to end, and where the transaction stays open the next begin finds that.
func rollback(c *conn) error {
	err := c.fatal
	c.exec("ROLLBACK")
	c.fatal = nil
	return err
}

// begin starts a transaction, on a new connection where the old one cannot, and looks whether someone else has written.
func (w *writer) begin() (*conn, error) {
	if w.conn == nil {
		c, err := dial(context.Background(), w.db)
		if err != nil {
			return nil, err
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
		return nil, err
	}
	var version int64
	if err := c.one([]any{&version}, "PRAGMA data_version"); err != nil {
		return nil, rollback(c)
	}
	if version != w.version {
		w.version = version
		w.others++
		w.foreign()
	}
	return c, nil
}

// hangUp closes the connection, which rolls back whatever it had open.
func (w *writer) hangUp() {
	if w.conn != nil {
		w.conn.close()
		w.conn = nil
	}
}

// close moves the write-ahead log into the file and closes the connection.
func (w *writer) close() (err error) {
	if w.conn != nil {
		var busy, pages, moved int
		err = w.conn.one([]any{&busy, &pages, &moved}, "PRAGMA wal_checkpoint(TRUNCATE)")
		w.hangUp()
	}
	return errors.Join(err, w.db.Close())
}
