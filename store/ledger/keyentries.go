package ledger

import (
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/chain"
	"attestd/store/db"
)

// KeyLifetime is the minimum lifetime of an idempotency key: see db.KeyClock. RunOptions may say
// more.
const KeyLifetime = 30 * 24 * time.Hour

// KeysAtOnce is the number of keys per statement. A statement for each key costs a tenth of an
// append.
const KeysAtOnce = 16

// SelectKeyEntries and InsertKeyEntries map the number of keys, 1 or KeysAtOnce, to the statement.
var SelectKeyEntries, InsertKeyEntries = statements(`SELECT name, request, idx, expires_at FROM idempotency_key WHERE chain = ?
	AND name IN (`, "?", `)`),
	statements(`INSERT INTO idempotency_key (chain, name, request, idx, expires_at) VALUES `, "(?, ?, ?, ?, ?)",
		` ON CONFLICT (chain, name) DO UPDATE SET request = excluded.request, idx = excluded.idx, expires_at = excluded.expires_at`)

func statements(head, each, tail string) map[int]string {
	return map[int]string{1: head + each + tail, KeysAtOnce: head + strings.Repeat(each+", ", KeysAtOnce-1) + each + tail}
}

// InPieces calls fn for [0, n) in pieces of keysAtOnce, and one by one for the remainder.
func InPieces(n int, fn func(from, to int) error) error {
	for from := 0; from < n; {
		to := from + 1
		if n-from >= KeysAtOnce {
			to = from + KeysAtOnce
		}
		if err := fn(from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// CheckReplayed checks that a record that is to answer a request again is below the head of its
// log, and that the company has signed it. The row of a record is no better than that of its key.
func CheckReplayed(c *db.Conn, number int64, name chain.Hash, r *chain.Record) error {
	var length int64
	if err := c.One([]any{&length}, `SELECT length FROM head WHERE chain = ?`, number); err != nil {
		return err
	}
	keys, err := db.ReadKeys(c, number, r.Index, r.Index+1)
	if err != nil {
		return err
	}
	key := keys.At(r.Index).Key
	if r.Index < length && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, r.Hash[:], r.Signature[:]) {
		return nil
	}
	return &chain.ForgedError{Name: name, Index: r.Index,
		Reason: fmt.Sprintf("leads to record %d, which the company has not signed", r.Index)}
}

func ReadKeyEntries(c *db.Conn,
	number int64, names []chain.Hash, now time.Time, yield func(chain.Hash, chain.KeyEntry),
) error {
	row := func(rows *sql.Rows) error {
		var name, request sql.RawBytes
		var kept chain.KeyEntry
		var expires int64
		if err := rows.Scan(&name, &request, &kept.Index, &expires); err != nil {
			return err
		}
		copy(kept.Request[:], request)
		kept.Expired = expires <= now.UnixMilli()
		yield(chain.Hash(name), kept)
		return nil
	}
	err := InPieces(len(names), func(from, to int) error {
		args := append(make([]any, 0, 1+KeysAtOnce), number)
		for i := from; i < to; i++ {
			args = append(args, names[i][:])
		}
		return c.Each(row, SelectKeyEntries[to-from], args...)
	})
	if err != nil {
		return fmt.Errorf("idempotency keys of chain %d: %w", number, err)
	}
	return nil
}

// ReadRecord reads the record of an idempotency key. A missing record means an external write.
func ReadRecord(c *db.Conn, number, index int64) (*chain.Record, error) {
	var found *chain.Record
	err := c.Records(number, index, index+1, "ORDER BY id", func(r *chain.Record) error {
		copied := r.Clone()
		found = &copied
		return nil
	})
	if err == nil && found == nil {
		err = fmt.Errorf("%w: %w", db.ErrCorrupt, chain.ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("record %d of chain %d: %w", index, number, err)
	}
	return found, nil
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

func (s *keySweep) after(c *db.Conn, kept int, now time.Time) error {
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
	err := c.One([]any{&chain, &name}, `SELECT chain, name FROM idempotency_key WHERE (chain, name) > (?, ?)
		ORDER BY chain, name LIMIT 1 OFFSET ?`, s.chain, s.name, rows-1)
	if errors.Is(err, db.ErrNotFound) {
		chain, name, err = 1<<62, []byte{}, nil // to the end of the table
	}
	if err == nil {
		_, err = c.Exec(`DELETE FROM idempotency_key WHERE (chain, name) > (?, ?) AND (chain, name) <= (?, ?)
			AND expires_at <= ?`, s.chain, s.name, chain, name, now.UnixMilli())
	}
	if s.chain, s.name = chain, name; chain == 1<<62 {
		s.chain, s.name = 0, nil
	}
	return err
}
