package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/store/db"
)

// Expired are rows that go some time after what they are for has ended.
type Expired struct {
	db        *base
	companies companyCache
}

// sweepRows is the maximum number of rows that one transaction deletes, so that an append never
// waits long for it.
const sweepRows = 256

// proofsStay is how long a used proof stays after its end. From its end on it is refused for its
// age, by a clock that is right.
const proofsStay = time.Hour

// Sweep is one pass over rows that may go. It deletes in small transactions.
type Sweep struct {
	Keep Retention
	Now  func() time.Time // the wall clock
	Pace Pace             // rests after each read and each transaction
	// called after each transaction with the number of rows that it has deleted
	Deleted func(kind string, rows int64)
}

// datedTable is a table whose rows end at a time in a column, in Unix milliseconds. It has an index
// by that.
type datedTable struct {
	kind, table, key, ends string
	keep                   func(Retention) time.Duration
}

var datedTables = []datedTable{
	{KindAccessToken, "oauth_token", "hash", "expires_at", func(r Retention) time.Duration { return r.Tokens }},
	{KindAccessToken, "federated_token", "hash", "expires_at", func(r Retention) time.Duration { return r.Tokens }},
	{KindAccessToken, "person_session", "hash", "expires_at", func(Retention) time.Duration { return 0 }},
	{KindRevokedToken, "revoked_token", "name", "expires_at", func(r Retention) time.Duration { return r.Tokens }},
	{KindUsedProof, "used_proof", "name", "expires_at", func(Retention) time.Duration { return proofsStay }},
	{KindRefusedCall, "refused_call", "call", "expires_at", func(Retention) time.Duration { return 0 }},
	// which is a day after the approval ends
	{KindApproval, "approval", "id", "gone_at", func(Retention) time.Duration { return 0 }},
}

// Tokens deletes access tokens, revocations, used proofs, and approvals.
func (s Expired) Tokens(ctx context.Context, w Sweep) error {
	return s.sweep(ctx, "tokens", w, func(now time.Time) error {
		for _, t := range datedTables {
			keep := t.keep(w.Keep)
			if keep == Forever {
				continue
			}
			ended := now.Add(-keep).UnixMilli()
			err := s.delete(ctx, w, t.kind, `SELECT 1 FROM `+t.table+` WHERE `+t.ends+` <= ? LIMIT 1`,
				fmt.Sprintf(`DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s <= ? ORDER BY %s LIMIT %d)`,
					t.table, t.key, t.key, t.table, t.ends, t.ends, sweepRows), ended)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// sweep calls pass with the time by which rows have ended.
func (s Expired) sweep(ctx context.Context, what string, w Sweep, pass func(now time.Time) error) error {
	now, err := s.db.TrustedTime(ctx, w.Now())
	if err == nil {
		err = pass(now)
	}
	if err != nil {
		return fmt.Errorf("delete %s that have ended: %w", what, err)
	}
	return nil
}

// delete runs a statement that deletes at most sweepRows rows, as long as a query finds one. Both
// have the same arguments.
func (s Expired) delete(ctx context.Context, w Sweep, kind, query, statement string, args ...any) error {
	for n := int64(1); n > 0; {
		began := time.Now()
		err := s.db.Read(ctx, func(c *db.Conn) error { return c.One([]any{new(int64)}, query, args...) })
		if errors.Is(err, db.ErrNotFound) {
			return nil
		}
		if err == nil {
			n, err = s.step(ctx, w, kind, began, statement, args...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// step runs one statement in its own transaction, and pauses.
func (s Expired) step(ctx context.Context, w Sweep, kind string, began time.Time, statement string, args ...any) (n int64, err error) {
	err = s.db.Write(ctx, func(c *db.Conn) error {
		n, err = c.Exec(statement, args...)
		return err
	})
	if err != nil {
		return n, err
	}
	w.Deleted(kind, n)
	return n, w.Pace.rest(ctx, began)
}
