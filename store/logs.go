package store

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
	from   reader
	number int64
}

// reader is a Store or a View.
type reader interface {
	Read(ctx context.Context, fn func(*db.Conn) error) error
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

// Checkpoint returns the last published checkpoint of a log with its signatures, or "" before the
// first.
func (v *View) Checkpoint(ctx context.Context, logID string) (size int64, note string, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&size, &note}, `SELECT coalesce(max(size), 0), coalesce(max(note), '') FROM checkpoint
			WHERE log_id = ?`, logID)
	})
	if err != nil {
		return 0, "", fmt.Errorf("checkpoint of log %s: %w", logID, err)
	}
	return size, note, nil
}

// Keep stores a checkpoint before it is published, unless a larger one is stored. One of the same
// size has the same text, and may be signed with another key.
func (s Checkpoints) Keep(ctx context.Context, logID string, size int64, note string) error {
	var number int64
	err := s.db.write(ctx, func(w *db.Conn) error {
		if err := w.One([]any{&number}, `SELECT chain FROM log WHERE log_id = ?`, logID); err != nil {
			return err
		}
		if err := s.db.Rollback.HaltedChain(number); err != nil {
			return err
		}
		_, err := w.Exec(`INSERT INTO checkpoint (log_id, size, note) VALUES (?, ?, ?)
			ON CONFLICT (log_id) DO UPDATE SET size = excluded.size, note = excluded.note WHERE excluded.size >= checkpoint.size`, logID, size, note)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep checkpoint of log %s: %w", logID, err)
	}
	if s.db.heads != nil {
		s.db.heads.published(number, note)
	}
	return nil
}
