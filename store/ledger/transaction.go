package ledger

import (
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// transaction implements chain.Transaction.
type transaction struct {
	*db.Conn
	w   *fileWriter
	now time.Time

	keyTime time.Time // time by which idempotency keys expire
	leapt   bool      // now is distrusted
	added   usage     // by the extensions

	extensions []*chain.Extension
}

// Bases implements chain.Transaction.
func (tx *transaction) Bases(chains []int64) []chain.Base {
	bases := make([]chain.Base, len(chains))
	for i, number := range chains {
		b := &bases[i]
		b.Err = tx.base(b, number)
	}
	return bases
}

// base reads the head of a chain, the key that signs its next record, and what bounds it.
func (tx *transaction) base(b *chain.Base, number int64) error {
	company, _ := db.LogOf(number)
	var root, frontier, logRoot, logFrontier, seed, public []byte
	var generation int64
	var has Limits
	h := &b.Head
	err := tx.One([]any{&h.Length, &root, &frontier, &h.Timestamp, &logRoot, &logFrontier, &h.Bytes, &generation, &seed, &public,
		&has.Suspended, &has.Records, &has.Bytes, &b.Revision},
		`SELECT length, root, frontier, timestamp, log_root, log_frontier, bytes, generation, seed, public_key, suspended_at IS NOT NULL, max_records, max_bytes,
			coalesce(revision, 0)
		FROM head JOIN company_key k ON k.company = ?1 AND ended_at IS NULL LEFT JOIN company_suspension s ON s.company = ?1
			LEFT JOIN company_quota q ON q.company = ?1 LEFT JOIN cedar_set c ON c.company = ?1 WHERE chain = ?2`, company, number)
	if errors.Is(err, db.ErrCorrupt) {
		tx.Fatal = nil // damage found by this read is no reason to refuse other chains
	}
	if errors.Is(err, db.ErrNotFound) {
		err = chain.ErrMissing
	}
	if err == nil {
		b.Key, err = tx.w.secrets.PrivateKey(company, generation, seed, public)
	}
	if err == nil {
		has, err = tx.w.obeyedLimits(tx.Conn, number, has)
	}
	if err != nil {
		return err
	}
	fillHead(h, root, frontier, logRoot, logFrontier)
	b.Limit = tx.w.quotas.limit(company, has)
	return nil
}

// Rekeyed implements chain.Transaction.
func (tx *transaction) Rekeyed() (chains []int64, all bool) { return tx.w.changedLimits() }

// Room implements chain.Transaction.
func (tx *transaction) Room() chain.Room { return tx.w.room(tx.Conn) }

// Savepoint implements chain.Transaction.
func (tx *transaction) Savepoint(rows func() error) error {
	if _, err := tx.Exec("SAVEPOINT change"); err != nil {
		return err
	}
	err := rows()
	if err != nil {
		tx.Exec("ROLLBACK TO change") // a failure is in tx.fatal
	}
	tx.Exec("RELEASE change")
	return err
}

// Err implements chain.Transaction. An I/O error or a full disk may end the whole SQLite
// transaction, not only the statement.
func (tx *transaction) Err() error { return tx.Fatal }

// Commit implements chain.Transaction.
func (tx *transaction) Commit() (stale []int64, err error) {
	if tx.Fatal == nil {
		_ = tx.w.lastUsed.write(tx.Conn) // an error that matters is in tx.fatal
	}
	if tx.Fatal == nil && tx.w.failed != nil {
		_ = tx.writePage() // so that this commit shows whether the disk works again
	}
	if tx.Fatal != nil {
		defer tx.Rollback()
		return nil, tx.Fatal
	}
	counted := tx.w.used.known
	tx.w.used.known = false // unless the commit succeeds
	tx.OnDamage = nil       // later failures cannot be retried
	if _, err := tx.Exec("COMMIT"); err != nil {
		tx.Rollback()
		if sqlite.RolledBack(err) || tx.overwrite() == nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: commit: %w", db.ErrUnknown, err)
	}
	// A commit into a file that is not where the next start looks for it would be lost.
	if err := tx.w.committed(tx.now); err != nil {
		return nil, fmt.Errorf("%w: %w", db.ErrUnknown, err)
	}
	tx.w.works()
	tx.w.clock.Advance(tx.now)
	tx.w.summaries.Confirm(nil)
	tx.w.used.known = counted
	tx.w.used.add(tx.added)
	for _, e := range tx.extensions {
		tx.w.doubt.remember(e)
	}
	return nil, nil
}

// overwrite restores certainty after a failed commit, if the disk allows. SQLite forgets such a
// transaction, but its frames may be in the write-ahead log, where the next process would find
// them. The next commit overwrites them; once it is durable, the lost frames are gone.
func (tx *transaction) overwrite() error {
	_, err := tx.Exec("BEGIN IMMEDIATE")
	if err == nil {
		err = tx.writePage()
	}
	if err == nil {
		_, err = tx.Exec("COMMIT")
	}
	if err != nil {
		tx.Rollback()
	}
	return err
}

// writePage writes a page without changing its content.
func (tx *transaction) writePage() error {
	_, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", db.SchemaVersion))
	return err
}

// Rollback implements chain.Transaction. It ignores the error of the statement: either SQLite has
// rolled back already, or the transaction stays open and the next Begin fails.
func (tx *transaction) Rollback() {
	tx.w.fail(tx.Fatal)
	tx.Exec("ROLLBACK")
	tx.Fatal = nil
}

// Free implements chain.Transaction.
func (tx *transaction) Free(number int64, keys []chain.Key) error {
	return tx.w.doubt.check(tx.Conn, number, keys)
}

// KeyEntries implements chain.Transaction.
func (tx *transaction) KeyEntries(
	names map[int64][]chain.Hash, yield func(int64, chain.Hash, chain.KeyEntry),
) (number int64, err error) {
	for number := range names {
		err := ReadKeyEntries(tx.Conn, number, names[number], tx.keyTime, func(name chain.Hash, k chain.KeyEntry) {
			yield(number, name, k)
		})
		if errors.Is(err, db.ErrCorrupt) {
			tx.Fatal = nil // damage found by this read is no reason to refuse the other extensions
		}
		if err != nil {
			return number, err
		}
	}
	return 0, nil
}

// Record implements chain.Transaction.
func (tx *transaction) Record(number, index int64) (*chain.Record, error) {
	r, err := ReadRecord(tx.Conn, number, index)
	if errors.Is(err, db.ErrCorrupt) {
		tx.Fatal = nil
	}
	return r, err
}

// keep writes the keys of an extension's records. A new key replaces an expired one that is still
// in the table.
func (tx *transaction) keep(e *chain.Extension) error {
	expires := tx.now.Add(tx.w.keyLifetime)
	err := InPieces(len(e.Keys), func(from, to int) error {
		args := make([]any, 0, 5*KeysAtOnce)
		for i := from; i < to; i++ {
			k := &e.Keys[i]
			end := expires
			if k.Unique {
				end = chain.LastTime
			}
			args = append(args, e.Chain, k.Name[:], k.Request[:], k.Index, end.UnixMilli())
		}
		_, err := tx.Exec(InsertKeyEntries[to-from], args...)
		return err
	})
	if err == nil && !tx.leapt {
		err = tx.w.keys.after(tx.Conn, len(e.Keys), tx.keyTime)
	}
	if err != nil {
		return fmt.Errorf("idempotency keys of chain %d: %w", e.Chain, err)
	}
	return nil
}
