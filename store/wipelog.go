package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/store/sqlite"
)

const (
	wipeTry      = "PRAGMA busy_timeout = 20" // milliseconds, for which appends wait too
	wipePause    = 20 * time.Millisecond
	wipePatience = 2 * time.Second
)

// wipeLog makes the write-ahead log of a file part of it and cuts it, so that no secret which was
// overwritten stands there any more. A reader that holds the log keeps it from that: it is tried
// again for a while, and each try is short, for appends wait meanwhile. ErrUnavailable where it
// could not be done; the log starts over at a later checkpoint, and at the end of the server.
func (s *Store) wipeLog(ctx context.Context) error {
	if s.isPostgres { // its log is the server's, and its backups'
		return nil
	}
	err := onFile(ctx, s.path, sqlite.ModeEdit, func(c *conn) error {
		if _, err := c.exec(wipeTry); err != nil {
			return err
		}
		for deadline := time.Now().Add(wipePatience); ; pause(ctx, wipePause) {
			var busy, pages, moved int
			err := c.one([]any{&busy, &pages, &moved}, "PRAGMA wal_checkpoint(TRUNCATE)")
			if err == nil && busy == 0 {
				return nil
			}
			if err != nil && !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || time.Now().After(deadline) {
				return errors.Join(err, ErrUnavailable)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("cut the write-ahead log: %w", err)
	}
	return nil
}

// overwriteDeleted has SQLite overwrite what is deleted on the connection that writes, where it
// would else stay in the free part of a page, or leave it.
func (s *Store) overwriteDeleted(w *conn, on bool) error {
	if s.isPostgres {
		return nil
	}
	if on {
		return w.one([]any{new(int64)}, "PRAGMA secure_delete = ON")
	}
	return w.one([]any{new(int64)}, "PRAGMA secure_delete = OFF")
}
