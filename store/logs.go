package store

import (
	"context"
	"fmt"

	"attestd/store/db"
)

// ControlOf returns the number of the company of whose control log a chain is; is is false for a
// chain of another log.
func ControlOf(number int64) (company int64, is bool) {
	company, name := db.LogOf(number)
	return company, name == db.Control
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
	err := s.db.Write(ctx, func(w *db.Conn) error {
		if err := w.One([]any{&number}, `SELECT chain FROM log WHERE log_id = ?`, logID); err != nil {
			return err
		}
		if err := s.db.haltedChain(number); err != nil {
			return err
		}
		_, err := w.Exec(`INSERT INTO checkpoint (log_id, size, note) VALUES (?, ?, ?)
			ON CONFLICT (log_id) DO UPDATE SET size = excluded.size, note = excluded.note WHERE excluded.size >= checkpoint.size`, logID, size, note)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep checkpoint of log %s: %w", logID, err)
	}
	if s.head.heads != nil {
		s.head.heads.published(number, note)
	}
	return nil
}
