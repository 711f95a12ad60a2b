package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Retire ensures that no process has the database at path open, and that its journals are gone,
// because SQLite would apply the write-ahead log of the old database to the new one. isReadable
// means that SQLite can open the database. It returns ErrInUse.
//
// To leave WAL mode, SQLite locks the file exclusively, checkpoints the log and deletes it. So a
// crash before the new file is in place leaves the old database intact.
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
	// left by a database that is gone, or too damaged for SQLite to open
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
