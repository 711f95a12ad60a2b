package store

import (
	"context"
	"sync"
	"time"
)

// maxRefused bounds the accounts of which a refusal is remembered, 80 bytes each.
const maxRefused = 20_000

// The times stand in the order of the calls. Whoever comes at the same moment waits for the row,
// and then finds what the other one has spent.
const (
	spendBudget = `INSERT INTO budget AS b (account, spent, until) VALUES ($1, ARRAY[clock_timestamp()], clock_timestamp() + interval '60 seconds')
	ON CONFLICT (account) DO UPDATE SET until = excluded.until,
		spent = ARRAY (SELECT at FROM unnest(b.spent) AS at WHERE at > clock_timestamp() - interval '60 seconds' ORDER BY at) || excluded.spent
	WHERE (SELECT count(*) FROM unnest(b.spent) AS at WHERE at > clock_timestamp() - interval '60 seconds') < $2
	RETURNING cardinality(spent), (extract(epoch FROM spent[1] + interval '60 seconds' - clock_timestamp()) * 1000)::bigint`
	nextOfBudget = `SELECT (extract(epoch FROM min(at) + interval '60 seconds' - clock_timestamp()) * 1000)::bigint FROM budget, unnest(spent) AS at
	WHERE account = $1 AND at > clock_timestamp() - interval '60 seconds' HAVING min(at) IS NOT NULL`
)

// Spent is what became of a call that was to be counted by all servers together.
type Spent struct {
	Counted bool // false where one server counts for itself
	OK      bool
	Left    int           // of the budget
	Frees   time.Duration // when the oldest call of the last minute counts no more
}

// refusals are the accounts that were refused, until when: they are not asked about before.
type refusals struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time
}

func (r *refusals) left(account [32]byte) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until[account])
}

func (r *refusals) note(account [32]byte, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) >= maxRefused {
		r.until = make(map[[32]byte]time.Time)
	}
	r.until[account] = until
}

// Spend counts a call of an account against a budget of so many in a minute, which all servers on
// the database share. A call that is refused is not counted. An error says that the database could
// not be asked: who has a counter of its own goes by that.
func (s *Store) Spend(ctx context.Context, account [32]byte, most int) (Spent, error) {
	if !s.MultiWriter() {
		return Spent{}, nil
	}
	if left := s.refused.left(account); left > 0 {
		return Spent{Counted: true, Frees: left}, nil
	}
	var used, frees int64
	found, err := s.spending.Row(ctx, []any{&used, &frees}, spendBudget, account[:], most)
	if err != nil {
		return Spent{}, err
	}
	if found {
		return Spent{true, true, most - int(used), time.Duration(frees) * time.Millisecond}, nil
	}
	// none: it has just become free
	if _, err := s.spending.Row(ctx, []any{&frees}, nextOfBudget, account[:]); err != nil {
		return Spent{}, err
	}
	wait := max(time.Duration(frees)*time.Millisecond, time.Millisecond)
	s.refused.note(account, time.Now().Add(wait))
	return Spent{Counted: true, Frees: wait}, nil
}
