package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/store/atrest"
	"attestd/store/postgres"
)

// pgWriter is the storage of a PostgreSQL server, which other servers of ours write too.
type pgWriter struct {
	*writer
	to      *postgres.Writer
	heads   *heads // nil while the database is behind its head file
	watch   *postgres.Watch
	changed bool // rows were changed in the transaction that is open
}

func newPGWriter(to *postgres.Writer, watch *postgres.Watch, x atrest.Secrets, u *lastUsed, d *nameDoubt) *pgWriter {
	return &pgWriter{writer: newWriter(x, u, d), to: to, watch: watch}
}

// Begin implements chain.Storage. That another server has written is said by Commit, of the chains
// that it concerns.
func (w *pgWriter) Begin(now time.Time) (chain.Transaction, bool, error) {
	if err := w.mayBegin(); err != nil {
		return nil, false, err
	}
	if err := w.connect(); err != nil {
		return nil, false, err
	}
	w.changed, w.rekeyed = false, nil
	w.updateQuotas()
	w.summaries.Drop() // what the transaction before has not kept
	if err := w.clock.check(w.conn, now); err != nil {
		w.conn.fatal = nil
		return nil, false, err
	}
	keyTime, leapt, err := w.keyClock.now(w.conn, now)
	if err != nil {
		w.conn.fatal = nil
		return nil, false, err
	}
	return &pgTransaction{conn: w.conn, w: w, now: now, keyTime: keyTime, leapt: leapt}, false, nil
}

// connect makes sure of a connection, which may be a new one.
func (w *pgWriter) connect() error {
	c, err := w.to.Conn()
	if err != nil {
		w.conn = nil
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if w.conn == nil || w.conn.sql != c {
		w.conn = newConn(c, postgresDialect)
		if w.heads != nil {
			w.heads.reconnected()
		}
	}
	return nil
}

// changing opens the transaction: one that changes no rows needs none, for what it appends is a
// single statement.
func (w *pgWriter) changing() (*conn, error) {
	if w.changed = true; w.to.Open() {
		return w.conn, nil
	}
	if err := w.to.Begin(); err != nil {
		w.conn.fatal = namedPG(err)
		return nil, w.conn.fatal
	}
	return w.conn, nil
}

// writeLastUsed writes in which hour credentials were used last. What cannot be written is noted
// again at the next use.
func (w *pgWriter) writeLastUsed() {
	var keys, clients []postgres.Use
	for id, hour := range w.lastUsed.drain(maxUses) {
		if id.key != 0 {
			keys = append(keys, postgres.Use{Row: id.key, Hour: hour})
		} else {
			clients = append(clients, postgres.Use{Row: id.client, Hour: hour})
		}
	}
	if len(keys)+len(clients) == 0 {
		return
	}
	if err := w.to.Used(keys, clients); err != nil {
		w.conn.fatal = namedPG(err)
	}
}

// maxUses is of how many credentials one commit notes the use.
const maxUses = 256

func (w *pgWriter) probe() error { return nil } // each transaction writes

func (w *pgWriter) check() error { return nil }

func (w *pgWriter) close() error { return w.to.Close() }

// namedPG puts the sentinel of the store in front of an error of postgres.Writer.
func namedPG(err error) error {
	if errors.Is(err, chain.ErrAgain) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if errors.Is(err, chain.ErrUnknown) {
		return err
	}
	// what is appended has places that nobody has, unless an intruder was there
	if postgres.ClassOf(err) == postgres.Duplicate {
		return fmt.Errorf("%w: rows stand beyond the head: %w", ErrCorrupt, err)
	}
	err, _ = judgePostgres(err)
	return err
}

// pgTransaction implements chain.Transaction.
type pgTransaction struct {
	*conn
	w          *pgWriter
	now        time.Time
	keyTime    time.Time // by which idempotency keys expire
	leapt      bool      // now is doubted
	extensions []chain.Extension
	summaries  []search.Ready // that they complete
	keys       int            // of their records
}

// Bases implements chain.Transaction.
func (tx *pgTransaction) Bases(chains []int64) []chain.Base {
	bases := make([]chain.Base, len(chains))
	var known map[int64]pin
	if tx.w.heads != nil {
		known = tx.w.heads.pinned(chains)
	}
	heads, err := tx.w.to.Heads(chains)
	if err != nil {
		tx.fatal = namedPG(err)
	}
	for i, number := range chains {
		b := &bases[i]
		h, found := heads[number]
		switch {
		case err != nil:
			b.Err = tx.fatal
		case !found:
			b.Err = chain.ErrMissing
		case h.Beyond:
			b.Err = fmt.Errorf("%w: rows stand beyond the head", ErrCorrupt)
		default:
			company, _ := logOf(number)
			if was := tx.w.watch.Length(number); was > h.Length {
				tx.w.logger.Error("the database has gone back: records that were acknowledged are gone; was a standby promoted that was not synchronous?",
					"chain", number, "records", h.Length, "were", was)
			}
			b.Shared, b.Epoch = h.Shared, h.Epoch
			b.Head.Length, b.Head.Timestamp, b.Head.Bytes = h.Length, h.Timestamp, h.Bytes
			fillHead(&b.Head, h.Root, h.Frontier, h.LogRoot, h.LogFrontier)
			if b.Key, b.Err = tx.w.secrets.PrivateKey(company, h.Generation, h.Seed, h.Public); b.Err == nil {
				obeyed, err := tx.w.obeyedLimits(tx.conn, number, limits{h.Suspended, h.MaxRecords, h.MaxBytes})
				b.Limit, b.Err = tx.w.quotas.limit(company, obeyed), tx.read(err)
			}
			if p, is := known[number]; is && b.Err == nil {
				b.Err = tx.w.heads.check(context.Background(), number, p, &b.Head, tx.w.logger)
			}
		}
	}
	return bases
}

// Rekeyed implements chain.Transaction.
func (tx *pgTransaction) Rekeyed() (chains []int64, all bool) { return tx.w.changedLimits() }

// Room implements chain.Transaction.
func (tx *pgTransaction) Room() chain.Room { return tx.w.room(tx.conn) }

// KeyEntries implements chain.Transaction.
func (tx *pgTransaction) KeyEntries(names map[int64][]chain.Hash, yield func(int64, chain.Hash, chain.KeyEntry)) (int64, error) {
	if err := tx.w.to.KeyEntries(names, tx.keyTime, yield); err != nil {
		tx.fatal = namedPG(err)
		return 0, tx.fatal
	}
	return 0, nil
}

// Record implements chain.Transaction.
func (tx *pgTransaction) Record(number, index int64) (*chain.Record, error) {
	r, err := tx.record(number, index)
	return r, tx.read(err)
}

// read takes the error of a statement that reads: in a transaction that is open it has ended all of
// it.
func (tx *pgTransaction) read(err error) error {
	if err != nil && !errors.Is(err, chain.ErrMissing) && tx.fatal == nil && tx.w.to.Open() {
		tx.fatal = err
	}
	return err
}

// Extend implements chain.Transaction: it is Commit that writes.
func (tx *pgTransaction) Extend(e *chain.Extension) error {
	tx.extensions = append(tx.extensions, *e)
	tx.summaries = append(tx.summaries, tx.w.summarize(e)...)
	tx.keys += len(e.Keys)
	return nil
}

// Savepoint implements chain.Transaction.
func (tx *pgTransaction) Savepoint(rows func() error) error {
	if _, err := tx.w.changing(); err != nil {
		return err
	}
	if _, err := tx.exec("SAVEPOINT change"); err != nil {
		return err
	}
	err := rows()
	if err != nil && tx.fatal == nil {
		tx.exec("ROLLBACK TO SAVEPOINT change") // its own failure is in tx.fatal
	}
	if tx.fatal == nil {
		tx.exec("RELEASE SAVEPOINT change")
	}
	return err
}

// Err implements chain.Transaction.
func (tx *pgTransaction) Err() error { return tx.fatal }

// Commit implements chain.Transaction.
func (tx *pgTransaction) Commit() (stale []int64, err error) {
	if tx.fatal == nil && !tx.w.to.Open() {
		tx.w.writeLastUsed()
	}
	if tx.fatal == nil && tx.keys > 0 && !tx.leapt {
		_ = tx.w.keys.after(tx.conn, tx.keys, tx.keyTime)
	}
	if tx.fatal != nil {
		defer tx.Rollback()
		return nil, tx.fatal
	}
	if stale, err = tx.w.to.Commit(tx.extensions, tx.summaries, tx.now.Add(tx.w.keyLifetime), tx.w.changed); err != nil {
		tx.w.used.known = false
		return nil, namedPG(err)
	}
	tx.w.clock.advance(tx.now)
	tx.w.summaries.Keep(stale)
	for i := range tx.extensions {
		if !slices.Contains(stale, tx.extensions[i].Chain) {
			tx.w.used.add(usageOf(&tx.extensions[i]))
			tx.w.doubt.remember(&tx.extensions[i])
		}
	}
	return stale, nil
}

// Rollback implements chain.Transaction.
func (tx *pgTransaction) Rollback() {
	tx.w.to.Rollback()
	tx.fatal = nil
}

// readServer runs fn on a connection of the pool. Where that has been lost before anything was read
// on it, fn runs once more on another. A connection that its caller's context has ended says
// nothing about the others.
func (s *Store) readServer(ctx context.Context, c *conn, fn func(*conn) error) (err error) {
	for again := true; ; again = false {
		if c.sql == nil || c.generation != s.lost.Load() {
			if err := s.redial(ctx, c); err != nil {
				return err
			}
		}
		c.yielded = false
		err = fn(c)
		if c.fatal == nil {
			return err
		}
		// the others were lost with it, most often
		s.lost.CompareAndSwap(c.generation, c.generation+1)
		if !again || c.yielded || !errors.Is(c.fatal, chain.ErrAgain) {
			return err
		}
	}
}

// readSilence is how long a read waits for its first row, or the next one.
const readSilence = 15 * time.Second

// redial gives c another connection.
func (s *Store) redial(ctx context.Context, c *conn) error {
	if c.sql != nil {
		_ = c.sql.Close()
	}
	generation := s.lost.Load()
	fresh, err := postgres.ConnectReader(ctx, s.db, readSilence)
	c.sql = nil
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
