package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/ledger"
	"attestd/store/names"
	"attestd/store/projection"
)

// Retries finds what was recorded under the key of a request.
type Retries struct{ db *base }

// Recorded returns the record that was appended to a company's actions under one of a draft's keys.
// It returns ErrNotFound if there is none, and chain.ErrKeyReused if the key belongs to a different
// request. A record that is not the one of the draft is a *TablesChangedError: an external write
// changed the entry of the key.
func (s Retries) Recorded(ctx context.Context, by Caller, key *chain.Key, d *chain.Draft) (r *chain.Record, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		now, err := s.db.KeyTime(c, by.At)
		if err != nil {
			return err
		}
		var found *chain.KeyEntry
		err = ledger.ReadKeyEntries(c, by.Company.Chain, []chain.Hash{key.Name}, now, func(_ chain.Hash, k chain.KeyEntry) { found = &k })
		if err != nil {
			return err
		}
		live := false
		if found != nil {
			r, live, err = key.Check(*found, d, func(index int64) (*chain.Record, error) { return ledger.ReadRecord(c, by.Company.Chain, index) })
		}
		switch {
		case err != nil:
			return err
		case !live:
			return db.ErrNotFound
		}
		return ledger.CheckReplayed(c, by.Company.Chain, key.Name, r)
	})
	if err != nil {
		return nil, s.db.forged(ctx, by.Company.Chain, err)
	}
	return r, nil
}

// RecordedUnder returns the record that the name of a key leads to, whatever was asked for under
// it, or ErrNotFound. is reports whether a record may have the name; if it does not, the entry is
// forged, and the error a *TablesChangedError. is is not called for a record whose payload was
// pruned.
func (s Retries) RecordedUnder(ctx context.Context, by Caller, name chain.Hash, is func(*chain.Record) bool) (r *chain.Record, err error) {
	err = s.db.Read(ctx, func(c *db.Conn) error {
		now, err := s.db.KeyTime(c, by.At)
		if err != nil {
			return err
		}
		entry := chain.KeyEntry{Expired: true}
		if err = ledger.ReadKeyEntries(c, by.Company.Chain, []chain.Hash{name}, now, func(_ chain.Hash, k chain.KeyEntry) { entry = k }); err != nil {
			return err
		}
		if entry.Expired {
			return db.ErrNotFound
		}
		if r, err = ledger.ReadRecord(c, by.Company.Chain, entry.Index); err != nil {
			return err
		}
		if !r.IsPruned() && !is(r) {
			return &chain.ForgedError{Name: name, Index: entry.Index,
				Reason: fmt.Sprintf("leads to record %d, which is another request's", entry.Index)}
		}
		return nil
	})
	return r, s.db.forged(ctx, by.Company.Chain, err)
}

// CheckTaken returns nil if the record that the entry leads to has the name of a statement that a
// chain.ReusedError in err calls taken, as far as its payload is there. Otherwise the entry is
// forged, and the error a *TablesChangedError.
func (s Retries) CheckTaken(ctx context.Context, by Caller, err error) error {
	var taken *chain.ReusedError
	if !errors.As(err, &taken) {
		return nil // by another draft of the same batch
	}
	var r *chain.Record
	if err := s.db.Read(ctx, func(c *db.Conn) error {
		r, err = ledger.ReadRecord(c, by.Company.Chain, taken.Entry.Index)
		return err
	}); err != nil || r.IsPruned() {
		return err
	}
	if n, err := names.Of(r); err == nil && n.Takes(taken.Key.Name, taken.Entry.Request) {
		return nil
	}
	return s.db.forged(ctx, by.Company.Chain, &chain.ForgedError{Name: taken.Key.Name, Index: r.Index,
		Reason: fmt.Sprintf("leads to record %d, of which it is no name", r.Index)})
}

// differingName is a difference in the row of an idempotency key.
func differingName(name chain.Hash, what string) *projection.Difference {
	return &projection.Difference{Table: projection.TableName, Row: hex.EncodeToString(name[:]), Index: -1, What: what}
}

// forged makes a *TablesChangedError of a chain.ForgedError, within a chain.DraftError too, and
// remembers it. Other errors stay as they are.
func (s *base) forged(ctx context.Context, number int64, err error) error {
	var forged *chain.ForgedError
	if !errors.As(err, &forged) {
		return err
	}
	c, named := s.named(context.WithoutCancel(ctx), number)
	if named != nil {
		return named
	}
	changed := s.noted(c, changedTables(c, differingName(forged.Name, forged.Reason)))
	if at := (*chain.DraftError)(nil); errors.As(err, &at) {
		return &chain.DraftError{Draft: at.Draft, Err: changed}
	}
	return changed
}
