package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// rowLock is the obvious implementation: each request locks the head of the chain, and writes the
// record and the next head.
type rowLock struct {
	conns []*pgx.Conn
}

func newRowLock(ctx context.Context, address string) (*rowLock, error) {
	l := &rowLock{}
	for i := range storeCallers {
		c, err := pgx.Connect(ctx, address)
		if err != nil {
			l.close()
			return nil, err
		}
		l.conns = append(l.conns, c)
		if i == 0 {
			_, err = c.Exec(ctx, `CREATE TABLE lock_head (chain bigint PRIMARY KEY, length bigint, root bytea, frontier bytea) WITH (fillfactor = 20);
				CREATE TABLE lock_record (id bigint PRIMARY KEY, hash bytea, signature bytea, timestamp text, payload text);
				INSERT INTO lock_head VALUES (1, 0, '', '')`)
			if err != nil {
				l.close()
				return nil, err
			}
		}
	}
	return l, nil
}

func (l *rowLock) close() {
	for _, c := range l.conns {
		_ = c.Close(context.Background())
	}
}

func (l *rowLock) append(ctx context.Context, d time.Duration) load {
	hash, signature, frontier := make([]byte, 32), make([]byte, 64), make([]byte, 320)
	return callFor(ctx, d, func(ctx context.Context, caller, _ int) error {
		return pgx.BeginFunc(ctx, l.conns[caller], func(tx pgx.Tx) error {
			var length int64
			if err := tx.QueryRow(ctx, `SELECT length FROM lock_head WHERE chain = 1 FOR UPDATE`).Scan(&length); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `INSERT INTO lock_record VALUES ($1, $2, $3, $4, $5)`, length, hash, signature,
				"2026-01-01T00:00:00.000Z", callerPayload); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE lock_head SET length = $1, root = $2, frontier = $3 WHERE chain = 1`, length+1, hash,
				frontier)
			return err
		})
	})
}
