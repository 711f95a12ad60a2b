package postgres

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5"
)

const feedTimeout = 5 * time.Second // for a statement, a new connection included

// The statements of a Feed. A row becomes visible when its transaction ends, and those end in
// another order than they begin: so what is new is what was not visible in the snapshot of the last
// look. Looking for it begins at the oldest transaction that was running then. The new snapshot
// comes in the same statement, and where there are no rows too.
const (
	feedBegin = `SELECT pg_current_snapshot()::text`
	feedNext  = `SELECT pg_current_snapshot()::text, f.chains, f.lengths FROM (SELECT) AS now LEFT JOIN feed f
	ON f.tx >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(f.tx, $1::pg_snapshot)`
	feedHeads   = `SELECT chain, length FROM head WHERE chain > $1 ORDER BY chain LIMIT $2`
	feedLengths = `SELECT chain, length FROM head WHERE chain = ANY ($1)`

	// The oldest rows are the first ones in the index.
	feedPurge = `DELETE FROM feed WHERE ctid = ANY (ARRAY (
	SELECT ctid FROM feed ORDER BY tx LIMIT 10000)) AND at < now() - interval '1 hour'`
	budgetPurge = `DELETE FROM budget WHERE until < now()`
)

// Feed reads what all servers append, on a connection of its own. One goroutine uses it. After an
// error it is opened again.
type Feed struct {
	db       *sql.DB
	conn     *sql.Conn
	native   *pgx.Conn
	snapshot string // of the last look
}

// NewFeed returns a feed of the database; it is opened by Open.
func NewFeed(db *sql.DB) *Feed { return &Feed{db: db} }

// Open connects. Next goes on from this moment on: what was appended before is in the heads that
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

// Close gives the connection back.
func (f *Feed) Close() {
	if f.conn != nil {
		_ = f.conn.Close()
		f.conn, f.native = nil, nil
	}
}

// Next returns the lengths of the chains that were extended since the last look, by whichever
// server.
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

// Heads returns the lengths of the next chains after one, in the order of their numbers, at most so
// many.
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

// Purge takes out what is older than an hour, at most ten thousand commits at once, and budgets of
// which nothing counts any more.
func (f *Feed) Purge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, feedTimeout)
	defer cancel()
	return sendBeside(ctx, f.native, func(b *pgx.Batch) { // what it deletes may come back
		b.Queue(feedPurge)
		b.Queue(budgetPurge)
	})
}
