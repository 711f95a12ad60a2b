package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/search"
	"attestd/store/atrest"
	"attestd/store/db"
	"attestd/store/postgres"
)

// pgWriter is the storage of a PostgreSQL server, which other attestd servers write too.
type pgWriter struct {
	*writer
	to      *postgres.Writer
	guard   Guard // nil while the database is behind its head file
	watch   *postgres.Watch
	changed bool // rows were changed in the transaction that is open
}

func newPGWriter(to *postgres.Writer, watch *postgres.Watch, x atrest.Secrets, u *LastUsed, d *NameDoubt) *pgWriter {
	return &pgWriter{writer: newWriter(x, u, d), to: to, watch: watch}
}

// Begin implements chain.Storage. Commit reports that another server has written, for the chains
// that this concerns.
func (w *pgWriter) Begin(now time.Time) (chain.Transaction, bool, error) {
	if err := w.mayBegin(); err != nil {
		return nil, false, err
	}
	if err := w.connect(); err != nil {
		return nil, false, err
	}
	w.changed, w.rekeyed = false, nil
	w.updateQuotas()
	w.summaries.Drop() // what the previous transaction has not stored
	if err := w.clock.Check(w.conn, now); err != nil {
		w.conn.Fatal = nil
		return nil, false, err
	}
	keyTime, leapt, err := w.keyClock.Now(w.conn, now)
	if err != nil {
		w.conn.Fatal = nil
		return nil, false, err
	}
	return &pgTransaction{Conn: w.conn, w: w, now: now, keyTime: keyTime, leapt: leapt}, false, nil
}

// connect makes sure of a connection, which may be a new one.
func (w *pgWriter) connect() error {
	c, err := w.to.Conn()
	if err != nil {
		w.conn = nil
		return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
	}
	if w.conn == nil || w.conn.SQL != c {
		w.conn = db.OnPostgres(c)
		if w.guard != nil {
			w.guard.Reconnected()
		}
	}
	return nil
}

// changing opens the transaction: one that changes no rows needs none, for what it appends is a
// single statement.
func (w *pgWriter) changing() (*db.Conn, error) {
	if w.changed = true; w.to.Open() {
		return w.conn, nil
	}
	if err := w.to.Begin(); err != nil {
		w.conn.Fatal = namedPG(err)
		return nil, w.conn.Fatal
	}
	return w.conn, nil
}

// writeLastUsed writes in which hour credentials were used last. What cannot be written is recorded
// again at the next use.
func (w *pgWriter) writeLastUsed() {
	var keys, clients []postgres.Use
	for id, hour := range w.lastUsed.drain(maxUses) {
		if id.Key != 0 {
			keys = append(keys, postgres.Use{Row: id.Key, Hour: hour})
		} else {
			clients = append(clients, postgres.Use{Row: id.Client, Hour: hour})
		}
	}
	if len(keys)+len(clients) == 0 {
		return
	}
	if err := w.to.Used(keys, clients); err != nil {
		w.conn.Fatal = namedPG(err)
	}
}

// maxUses is the number of credentials whose use one commit records.
const maxUses = 256

func (w *pgWriter) probe() error { return nil } // each transaction writes

func (w *pgWriter) check() error { return nil }

func (w *pgWriter) close() error { return w.to.Close() }

// namedPG puts the sentinel of the store in front of an error of postgres.Writer.
func namedPG(err error) error {
	if errors.Is(err, chain.ErrTransactionLost) {
		return fmt.Errorf("%w: %w", db.ErrUnavailable, err)
	}
	if errors.Is(err, chain.ErrUnknown) {
		return err
	}
	// the appended rows have free places, unless an intruder has written them
	if postgres.ClassOf(err) == postgres.Duplicate {
		return fmt.Errorf("%w: rows stand beyond the head: %w", db.ErrCorrupt, err)
	}
	return db.PostgresSentinel(err)
}

// pgTransaction implements chain.Transaction.
type pgTransaction struct {
	*db.Conn
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
	check := func(int64, *chain.Head) error { return nil }
	if tx.w.guard != nil {
		check = tx.w.guard.Check(chains, tx.w.logger)
	}
	heads, err := tx.w.to.Heads(chains)
	if err != nil {
		tx.Fatal = namedPG(err)
	}
	for i, number := range chains {
		b := &bases[i]
		h, found := heads[number]
		switch {
		case err != nil:
			b.Err = tx.Fatal
		case !found:
			b.Err = chain.ErrMissing
		case h.Beyond:
			b.Err = fmt.Errorf("%w: rows stand beyond the head", db.ErrCorrupt)
		default:
			company, _ := db.LogOf(number)
			if was := tx.w.watch.Length(number); was > h.Length {
				tx.w.logger.Error("the database has gone back: records that were acknowledged are gone; was a standby promoted that was not synchronous?",
					"chain", number, "records", h.Length, "were", was)
			}
			b.Shared, b.Epoch, b.Revision = h.Shared, h.Epoch, h.Revision
			b.Head.Length, b.Head.Timestamp, b.Head.Bytes = h.Length, h.Timestamp, h.Bytes
			fillHead(&b.Head, h.Root, h.Frontier, h.LogRoot, h.LogFrontier)
			if b.Key, b.Err = tx.w.secrets.PrivateKey(company, h.Generation, h.Seed, h.Public); b.Err == nil {
				obeyed, err := tx.w.obeyedLimits(tx.Conn, number, Limits{h.Suspended, h.MaxRecords, h.MaxBytes})
				b.Limit, b.Err = tx.w.quotas.limit(company, obeyed), tx.read(err)
			}
			if b.Err == nil {
				b.Err = check(number, &b.Head)
			}
		}
	}
	return bases
}

// Rekeyed implements chain.Transaction.
func (tx *pgTransaction) Rekeyed() (chains []int64, all bool) { return tx.w.changedLimits() }

// Room implements chain.Transaction.
func (tx *pgTransaction) Room() chain.Room { return tx.w.room(tx.Conn) }

// KeyEntries implements chain.Transaction.
func (tx *pgTransaction) KeyEntries(names map[int64][]chain.Hash, yield func(int64, chain.Hash, chain.KeyEntry)) (int64, error) {
	if err := tx.w.to.KeyEntries(names, tx.keyTime, yield); err != nil {
		tx.Fatal = namedPG(err)
		return 0, tx.Fatal
	}
	return 0, nil
}

// Record implements chain.Transaction.
func (tx *pgTransaction) Record(number, index int64) (*chain.Record, error) {
	r, err := ReadRecord(tx.Conn, number, index)
	return r, tx.read(err)
}

// read handles the error of a statement that reads: in an open transaction it has ended the
// transaction.
func (tx *pgTransaction) read(err error) error {
	if err != nil && !errors.Is(err, chain.ErrMissing) && tx.Fatal == nil && tx.w.to.Open() {
		tx.Fatal = err
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
	if _, err := tx.Exec("SAVEPOINT change"); err != nil {
		return err
	}
	err := rows()
	if err != nil && tx.Fatal == nil {
		tx.Exec("ROLLBACK TO SAVEPOINT change") // its own failure is in tx.fatal
	}
	if tx.Fatal == nil {
		tx.Exec("RELEASE SAVEPOINT change")
	}
	return err
}

// Err implements chain.Transaction.
func (tx *pgTransaction) Err() error { return tx.Fatal }

// Commit implements chain.Transaction.
func (tx *pgTransaction) Commit() (stale []int64, err error) {
	if tx.Fatal == nil && !tx.w.to.Open() {
		tx.w.writeLastUsed()
	}
	if tx.Fatal == nil && tx.keys > 0 && !tx.leapt {
		_ = tx.w.keys.after(tx.Conn, tx.keys, tx.keyTime)
	}
	if tx.Fatal != nil {
		defer tx.Rollback()
		return nil, tx.Fatal
	}
	if stale, err = tx.w.to.Commit(tx.extensions, tx.summaries, tx.now.Add(tx.w.keyLifetime), tx.w.changed); err != nil {
		tx.w.used.known = false
		return nil, namedPG(err)
	}
	tx.w.clock.Advance(tx.now)
	tx.w.summaries.Confirm(stale)
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
	tx.Fatal = nil
}

// Free implements chain.Transaction. The deletion of an entry by an external write is visible only
// for an entry that this server has made.
func (tx *pgTransaction) Free(number int64, keys []chain.Key) error {
	return tx.read(tx.w.doubt.check(tx.Conn, number, keys))
}
