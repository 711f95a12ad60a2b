package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Retire makes sure that nobody has the database at path open, and that its journals are gone:
// SQLite would play the write-ahead log of the old database into the new one. isReadable says that
// SQLite can open it, and not only whoever removes what it left. ErrInUse.
//
// To leave WAL mode, SQLite takes the file for itself alone, moves the log into it and deletes the
// log. So a crash before the new file is in place leaves the old database, whole.
func Retire(ctx context.Context, path string, isReadable bool) error {
	if isReadable {
		db, err := Open(path, ModeEdit)
		if err != nil {
			return err
		}
		defer db.Close()
		var mode string
		err = db.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode)
		if ClassOf(err) == Busy || err == nil && mode != "delete" {
			return fmt.Errorf("%w: another program has %s open", ErrInUse, path)
		}
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	// of a database that is gone, or too damaged for SQLite to open
	for _, left := range Leftovers(path) {
		if err := os.Remove(left); err != nil {
			return err
		}
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
