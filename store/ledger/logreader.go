package ledger

import (
	"context"
	"database/sql"
	"fmt"

	"attestd/chain"
	"attestd/chain/tlog"
	"attestd/store/db"
)

// LogReader reads the log tree of a chain. It implements tlog.Reader.
type LogReader struct {
	from   *View
	number int64
}

// LogTree returns the reader of the log tree of a log.
func (v *View) LogTree(l db.Log) LogReader {
	return LogReader{v, l.Chain}
}

// Hashes implements tlog.Reader. If hashes are missing, the error wraps chain.ErrMissing.
func (l LogReader) Hashes(ctx context.Context, level int, from, to int64) (hashes []tlog.Hash, err error) {
	err = l.from.Read(ctx, func(c *db.Conn) (err error) {
		if level == 0 {
			keys, err := db.ReadKeys(c, l.number, from, to)
			if err == nil {
				hashes, err = db.ReadLeaves(c, l.number, from, to, keys)
			}
			return err
		}
		return c.Each(func(rows *sql.Rows) error {
			var stored []byte
			var h tlog.Hash
			err := rows.Scan(&stored)
			db.FillHash(h[:], stored)
			hashes = append(hashes, h)
			return err
		}, `SELECT log_hash FROM node WHERE chain = ? AND level = ? AND idx >= ? AND idx < ?
			ORDER BY idx`, l.number, level, from, to)
	})
	if err == nil && int64(len(hashes)) < to-from {
		err = chain.ErrMissing
	}
	if err != nil {
		return nil, fmt.Errorf("log tree of chain %d, level %d from %d: %w", l.number, level, from, err)
	}
	return hashes, nil
}

// EachLeaf calls yield for the leaves of the records [from, to) in ascending order. If a record is
// missing, the error wraps chain.ErrMissing.
func (l LogReader) EachLeaf(ctx context.Context, from, to int64, yield func(*tlog.Leaf) error) error {
	var keys chain.KeySet
	err := l.from.Read(ctx, func(c *db.Conn) (err error) {
		keys, err = db.ReadKeys(c, l.number, from, to)
		return err
	})
	if err != nil {
		return fmt.Errorf("keys of chain %d: %w", l.number, err)
	}
	next, made := from, chain.Leaves{Keys: keys}
	leaf := func(r *chain.Record) error {
		if r.Index != next {
			return chain.ErrMissing
		}
		next++
		leaf := made.Of(r)
		return yield(&leaf)
	}
	err = l.from.Read(ctx, func(c *db.Conn) error { return c.Records(l.number, from, to, "ORDER BY id", leaf) })
	if err == nil && next < to {
		err = fmt.Errorf("record %d: %w", next, chain.ErrMissing)
	}
	return err
}
