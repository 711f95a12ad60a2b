package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
)

const feedTimeout = 5 * time.Second // per statement, including a new connection

// The statements of a Feed. A row becomes visible when its transaction ends, and transactions do
// not end in the order in which they begin. So the new rows are those that were not visible in the
// previous snapshot. The search begins at the oldest transaction that was running then. The same
// statement returns the new snapshot, even without rows.
const (
	feedBegin = `SELECT pg_current_snapshot()::text`
	feedNext  = `SELECT pg_current_snapshot()::text, f.chains, f.lengths FROM (SELECT) AS now LEFT JOIN feed f
	ON f.tx >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(f.tx, $1::pg_snapshot)`
	feedHeads   = `SELECT chain, length FROM head WHERE chain > $1 ORDER BY chain LIMIT $2`
	feedLengths = `SELECT chain, length FROM head WHERE chain = ANY ($1)`

	// The oldest rows are first in the index.
	feedPurge = `DELETE FROM feed WHERE ctid = ANY (ARRAY (
	SELECT ctid FROM feed ORDER BY tx LIMIT 10000)) AND at < now() - interval '1 hour'`
	budgetPurge = `DELETE FROM budget WHERE until < now()`
)

// Feed reads what all servers append, on a separate connection. It MUST be used by one goroutine at
// a time. After an error the caller MUST call Open again.
type Feed struct {
	db       *sql.DB
	conn     *sql.Conn
	native   *pgx.Conn
	snapshot string // snapshot of the last call of Next
}

// NewFeed returns a feed of the database, which is not open.
func NewFeed(db *sql.DB) *Feed { return &Feed{db: db} }

// Open connects. Next reports what is appended from now on; earlier records are in the heads that
// are read from now on.
func (f *Feed) Open(ctx context.Context) (err error) {
	f.Close()
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	if f.conn, f.native, err = connect(ctx, f.db); err != nil {
		return err
	}
	return f.native.QueryRow(ctx, feedBegin).Scan(&f.snapshot)
}

// Close closes the connection.
func (f *Feed) Close() {
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn, f.native = nil, nil
	}
}

// Next returns the lengths of the chains that any server has extended since the last call.
func (f *Feed) Next(ctx context.Context) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	rows, err := f.native.Query(ctx, feedNext, f.snapshot)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var snapshot string
	var chains, lengths []int64
	grown := make(map[int64]int64)
	for rows.Next() {
		if err := rows.Scan(&snapshot, &chains, &lengths); err != nil {
			return nil, err
		}
		for i, c := range chains[:min(len(chains), len(lengths))] {
			grown[c] = max(grown[c], lengths[i])
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	f.snapshot = snapshot
	return grown, nil
}

// Heads returns the lengths of the chains with IDs greater than after, in the order of their IDs,
// at most most of them.
func (f *Feed) Heads(ctx context.Context, after int64, most int) (lengths map[int64]int64, last int64, err error) {
	if lengths, err = f.lengths(ctx, feedHeads, after, most); err != nil {
		return nil, after, err
	}
	last = after
	for c := range lengths {
		last = max(last, c)
	}
	return lengths, last, nil
}

// Lengths returns the lengths of chains.
func (f *Feed) Lengths(ctx context.Context, chains []int64) (map[int64]int64, error) {
	return f.lengths(ctx, feedLengths, chains)
}

func (f *Feed) lengths(ctx context.Context, query string, args ...any) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	rows, err := f.native.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	lengths := make(map[int64]int64)
	var chain, length int64
	_, err = pgx.ForEachRow(rows, []any{&chain, &length}, func() error {
		lengths[chain] = length
		return nil
	})
	return lengths, err
}

// Purge deletes rows that are older than an hour, at most ten thousand at once, and expired
// budgets.
func (f *Feed) Purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return sendBeside(ctx, f.native, func(b *pgx.Batch) { // a deletion that is lost does no harm
		b.Queue(feedPurge)
		b.Queue(budgetPurge)
	})
}
