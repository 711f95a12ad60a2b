package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
)

// KeyLifetime is how long an idempotency key counts.
const KeyLifetime = 30 * 24 * time.Hour

// recorded finds the record that stands under a key at a time.
const recorded = `SELECT request, id, hash, signature, timestamp, payload, delegation
	FROM idempotency_key LEFT JOIN record ON id = record WHERE company = ? AND name = ? AND expires_at > ?`

// Recorded implements chain.Transaction.
func (tx *transaction) Recorded(number int64, key *chain.Key) (*chain.Record, error) {
	r, err := tx.recorded(number, key, tx.now)
	if errors.Is(err, ErrCorrupt) {
		tx.fatal = nil // damage that a read has met is no reason to refuse others
	}
	return r, err
}

// Recorded returns the record that was appended to a company's actions under a key: ErrNotFound where there is none, chain.ErrKeyReused where the
// key was another request's.
func (s *Store) Recorded(ctx context.Context, by Caller, key *chain.Key) (r *chain.Record, err error) {
	err = s.read(ctx, func(c *conn) error {
		r, err = c.recorded(by.Company.Chain, key, by.At)
		return err
	})
	if r == nil && err == nil {
		err = ErrNotFound
	}
	return r, err
}

func (c *conn) recorded(number int64, key *chain.Key, now time.Time) (*chain.Record, error) {
	company, name := logOf(number)
	if name != Actions {
		return nil, fmt.Errorf("chain %d takes no idempotency keys", number)
	}
	var r chain.Record
	var request, hash, signature, delegation []byte
	var id sql.NullInt64
	var timestamp, payload sql.NullString
	err := c.one([]any{&request, &id, &hash, &signature, &timestamp, &payload, &delegation}, recorded, company, key.Name[:], now.UnixMilli())
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("idempotency key: %w", err)
	case chain.Hash(request) != key.Request:
		return nil, chain.ErrKeyReused
	case !id.Valid:
		return nil, fmt.Errorf("%w: the record of an idempotency key is gone", ErrCorrupt)
	}
	r.Index, r.Timestamp, r.Payload, r.Delegation = id.Int64&indexMask, timestamp.String, []byte(payload.String), delegation
	fill(r.Hash[:], hash)
	fill(r.Signature[:], signature)
	return &r, nil
}

// keep writes the keys of an extension's records, and forgets some of the same company's that count no more, oldest first: two for each that comes,
// so that no commit has many to forget. A key that has expired and was not forgotten yet makes room for its successor.
func (tx *transaction) keep(e *chain.Extension) error {
	company, _ := logOf(e.Chain)
	kept := 0
	for i, k := range e.Keys {
		if k == nil {
			continue
		}
		kept++
		if _, err := tx.exec(`INSERT INTO idempotency_key (record, company, name, request, expires_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (company, name) DO UPDATE SET record = excluded.record, request = excluded.request, expires_at = excluded.expires_at`,
			recordID(e.Chain, e.Records[i].Index), company, k.Name[:], k.Request[:], tx.now.Add(KeyLifetime).UnixMilli()); err != nil {
			return fmt.Errorf("idempotency key: %w", err)
		}
	}
	if kept == 0 {
		return nil
	}
	_, err := tx.exec(`DELETE FROM idempotency_key WHERE record IN (SELECT record FROM
		(SELECT record, expires_at FROM idempotency_key WHERE record BETWEEN ? AND ? ORDER BY record LIMIT ?) WHERE expires_at <= ?)`,
		recordID(e.Chain, 0), recordID(e.Chain, indexMask), 2*kept, tx.now.UnixMilli())
	return err
}
