package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	cutTry      = "PRAGMA busy_timeout = 20" // milliseconds, during which appends wait too
	cutPause    = 20 * time.Millisecond
	cutPatience = 2 * time.Second
)

// CutLog checkpoints and truncates the write-ahead log of the file at path, so that it no longer
// contains overwritten secrets. A reader may block that, so CutLog retries for a while. Each
// attempt is short, because appends wait meanwhile. It returns ErrUnavailable if it did not
// succeed; then a later checkpoint, or the end of the server, resets the log.
func CutLog(ctx context.Context, path string) error {
	db, err := Open(path, ModeEdit)
	if err != nil {
		return err
	}
	defer db.Close()
	c, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("cut the write-ahead log: %w: %w", ErrUnavailable, err)
	}
	defer c.Close()
	_, err = c.ExecContext(ctx, cutTry)
	for deadline := time.Now().Add(cutPatience); err == nil; {
		var busy, pages, moved int
		err = c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &pages, &moved)
		if err == nil && busy == 0 {
			return nil
		}
		switch ClassOf(err) {
		case Busy, Full, Unavailable:
			err = nil
		}
		if err == nil && time.Now().After(deadline) {
			err = ErrUnavailable
		}
		if err != nil {
			break
		}
		select {
		case <-time.After(cutPause):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if !errors.Is(err, ErrUnavailable) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("cut the write-ahead log: %w", err)
}
