package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/chain"
)

// KeyLifetime is the minimum lifetime of an idempotency key: see keyClock. RunOptions may say more.
const KeyLifetime = 30 * 24 * time.Hour

// keysAtOnce is the number of keys per statement. A statement for each key costs a tenth of an
// append.
const keysAtOnce = 16

// selectKept and insertKept map the number of keys, 1 or keysAtOnce, to the statement.
var selectKept, insertKept = statements(`SELECT name, request, idx FROM idempotency_key WHERE chain = ?
	AND expires_at > ? AND name IN (`, "?", `)`),
	statements(`INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES `, "(?, ?, ?, ?, ?)",
		` ON CONFLICT (chain, name) DO UPDATE SET request = excluded.request, idx = excluded.idx, expires_at = excluded.expires_at`)

func statements(head, each, tail string) map[int]string {
	return map[int]string{1: head + each + tail, keysAtOnce: head + strings.Repeat(each+", ", keysAtOnce-1) + each + tail}
}

// inPieces calls fn for [0, n) in pieces of keysAtOnce, and one by one for the remainder.
func inPieces(n int, fn func(from, to int) error) error {
	for from := 0; from < n; {
		to := from + 1
		if n-from >= keysAtOnce {
			to = from + keysAtOnce
		}
		if err := fn(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// KeyEntries implements chain.Transaction.
func (tx *transaction) KeyEntries(
	names map[int64][]chain.Hash, yield func(int64, chain.Hash, chain.KeyEntry),
) (number int64, err error) {
	for number := range names {
		err := tx.keyEntries(number, names[number], tx.keyTime, func(name chain.Hash, k chain.KeyEntry) {
			yield(number, name, k)
		})
		if errors.Is(err, ErrCorrupt) {
			tx.fatal = nil // damage found by this read is no reason to refuse the other extensions
		}
		if err != nil {
			return number, err
		}
	}
	return 0, nil
}

// Record implements chain.Transaction.
func (tx *transaction) Record(number, index int64) (*chain.Record, error) {
	r, err := tx.record(number, index)
	if errors.Is(err, ErrCorrupt) {
		tx.fatal = nil
	}
	return r, err
}

// Recorded returns the record that was appended to a company's actions under a key. It returns
// ErrNotFound if there is none, and chain.ErrKeyReused if the key belongs to a different request.
func (s *Store) Recorded(ctx context.Context, by Caller, key *chain.Key) (r *chain.Record, err error) {
	err = s.read(ctx, func(c *conn) error {
		now, err := s.keyTime(c, by.At)
		if err != nil {
			return err
		}
		var found *chain.KeyEntry
		err = c.keyEntries(by.Company.Chain, []chain.Hash{key.Name}, now, func(_ chain.Hash, k chain.KeyEntry) { found = &k })
		switch {
		case err != nil:
			return err
		case found == nil:
			return ErrNotFound
		case found.Request != key.Request && key.Unique:
			return chain.ErrTaken
		case found.Request != key.Request:
			return chain.ErrKeyReused
		}
		r, err = c.record(by.Company.Chain, found.Index)
		return err
	})
	return r, err
}

func (c *conn) keyEntries(
	number int64, names []chain.Hash, now time.Time, yield func(chain.Hash, chain.KeyEntry),
) error {
	row := func(rows *sql.Rows) error {
		var name, request sql.RawBytes
		var kept chain.KeyEntry
		if err := rows.Scan(&name, &request, &kept.Index); err != nil {
			return err
		}
		copy(kept.Request[:], request)
		yield(chain.Hash(name), kept)
		return nil
	}
	err := inPieces(len(names), func(from, to int) error {
		args := append(make([]any, 0, 2+keysAtOnce), number, now.UnixMilli())
		for i := from; i < to; i++ {
			args = append(args, names[i][:])
		}
		return c.each(row, selectKept[to-from], args...)
	})
	if err != nil {
		return fmt.Errorf("idempotency keys of chain %d: %w", number, err)
	}
	return nil
}

// record reads the record of an idempotency key. A missing record means that somebody has changed
// the file.
func (c *conn) record(number, index int64) (*chain.Record, error) {
	var found *chain.Record
	err := c.records(number, index, index+1, "ORDER BY id", func(r *chain.Record) error {
		copied := r.Clone()
		found = &copied
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%w: %w", ErrCorrupt, chain.ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("record %d of chain %d: %w", index, number, err)
	}
	return found, nil
}

// keep writes the keys of an extension's records. A new key replaces an expired one that is still
// in the table.
func (tx *transaction) keep(e *chain.Extension) error {
	expires := tx.now.Add(tx.w.keyLifetime)
	err := inPieces(len(e.Keys), func(from, to int) error {
		args := make([]any, 0, 5*keysAtOnce)
		for i := from; i < to; i++ {
			k := &e.Keys[i]
			end := expires
			if k.Unique {
				end = chain.LastTime
			}
			args = append(args, e.Chain, k.Name[:], k.Request[:], k.Index, end.UnixMilli())
		}
		_, err := tx.exec(insertKept[to-from], args...)
		return err
	})
	if err == nil && !tx.leapt {
		err = tx.w.keys.after(tx.conn, len(e.Keys), tx.keyTime)
	}
	if err != nil {
		return fmt.Errorf("idempotency keys of chain %d: %w", e.Chain, err)
	}
	return nil
}

// keySweep deletes expired keys. It cycles through the table, two rows for each new key, so that no
// commit reads many rows and no index by time is needed. Its position is not stored: a restart
// begins at the start, and an aborted transaction skips some rows.
type keySweep struct {
	owed  int // new keys since the last step
	chain int64
	name  []byte
}

// sweepEach is the number of new keys between two steps.
const sweepEach = 64

func (s *keySweep) after(c *conn, kept int, now time.Time) error {
	if s.owed += kept; s.owed < sweepEach {
		return nil
	}
	rows := 2 * s.owed
	s.owed = 0
	if s.name == nil {
		s.name = []byte{}
	}
	var chain int64
	var name []byte
	err := c.one([]any{&chain, &name}, `SELECT chain, name FROM idempotency_key WHERE (chain, name) > (?, ?)
		ORDER BY chain, name LIMIT 1 OFFSET ?`, s.chain, s.name, rows-1)
	if errors.Is(err, ErrNotFound) {
		chain, name, err = 1<<62, []byte{}, nil // to the end of the table
	}
	if err == nil {
		_, err = c.exec(`DELETE FROM idempotency_key WHERE (chain, name) > (?, ?) AND (chain, name) <= (?, ?)
			AND expires_at <= ?`, s.chain, s.name, chain, name, now.UnixMilli())
	}
	if s.chain, s.name = chain, name; chain == 1<<62 {
		s.chain, s.name = 0, nil
	}
	return err
}
