package db

import (
	"context"
	"sync"
	"time"

	"attestd/internal/bounded"
)

// maxRefused bounds the number of accounts in refusals, at 80 bytes each.
const maxRefused = 20_000

// The array holds the times of the calls in order. A concurrent call waits for the row lock and
// then sees what the other call has spent.
const (
	spendBudget = `INSERT INTO budget AS b (account, spent, until) VALUES ($1, ARRAY[clock_timestamp()], clock_timestamp() + interval '60 seconds')
	ON CONFLICT (account) DO UPDATE SET until = excluded.until,
		spent = ARRAY (SELECT at FROM unnest(b.spent) AS at WHERE at > clock_timestamp() - interval '60 seconds' ORDER BY at) || excluded.spent
	WHERE (SELECT count(*) FROM unnest(b.spent) AS at WHERE at > clock_timestamp() - interval '60 seconds') < $2
	RETURNING cardinality(spent), (extract(epoch FROM spent[1] + interval '60 seconds' - clock_timestamp()) * 1000)::bigint`
	nextOfBudget = `SELECT (extract(epoch FROM min(at) + interval '60 seconds' - clock_timestamp()) * 1000)::bigint FROM budget, unnest(spent) AS at
	WHERE account = $1 AND at > clock_timestamp() - interval '60 seconds' HAVING min(at) IS NOT NULL`
)

// Spent is the result of counting a call against a budget that all servers share.
type Spent struct {
	Counted bool // false if each server counts on its own
	OK      bool
	Left    int           // remaining calls in the budget
	Frees   time.Duration // until the oldest call leaves the one-minute window
}

// refusals caches until when accounts are out of budget. Before that time they are refused without
// a query.
type refusals struct {
	mu    sync.Mutex
	until *bounded.Map[[32]byte, time.Time] // nil at first
}

func (r *refusals) left(account [32]byte) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, _ := r.until.Get(account)
	return time.Until(until)
}

func (r *refusals) note(account [32]byte, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = bounded.NewMap[[32]byte, time.Time](maxRefused)
	}
	r.until.Put(account, until)
}

// Spend counts a call of an account against a budget of most calls per minute, which all servers on
// the database share. A refused call is not counted. An error means that the database could not be
// queried; the caller then uses its own counter.
func (d *DB) Spend(ctx context.Context, account [32]byte, most int) (Spent, error) {
	if !d.MultiWriter() {
		return Spent{}, nil
	}
	if left := d.refused.left(account); left > 0 {
		return Spent{Counted: true, Frees: left}, nil
	}
	var used, frees int64
	found, err := d.spending.Row(ctx, []any{&used, &frees}, spendBudget, account[:], most)
	if err != nil {
		return Spent{}, err
	}
	if found {
		return Spent{true, true, most - int(used), time.Duration(frees) * time.Millisecond}, nil
	}
	// no row: the budget has become free since the first statement
	if _, err := d.spending.Row(ctx, []any{&frees}, nextOfBudget, account[:]); err != nil {
		return Spent{}, err
	}
	wait := max(time.Duration(frees)*time.Millisecond, time.Millisecond)
	d.refused.note(account, time.Now().Add(wait))
	return Spent{Counted: true, Frees: wait}, nil
}
