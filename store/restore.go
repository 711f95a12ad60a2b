package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Restore checks in wholly (integrity, schema, every chain) and then puts it at path. ErrRefused when path exists and force is not set; ErrInUse.
// A foreign file at either place is ErrForeign; a chain that does not verify is a *VerifyError. progress is as for Backup.
func Restore(ctx context.Context, in, path string, force bool, progress func(stage string, done, total int64)) error {
	useOFDLocks()
	in, err := absolute(in)
	if err != nil {
		return err
	}
	if path, err = absolute(path); err != nil {
		return err
	}
	l, err := checkTarget(ctx, path, force)
	if err != nil {
		return err
	}
	defer l.unlock()

	tmp, err := checkedCopy(ctx, in, path, progress)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer tmp.discard()
	if !force {
		err = placeNew(tmp.path, path)
	} else if err = retire(ctx, path); err == nil {
		err = replace(tmp.path, path)
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// checkTarget says whether a database may be put at path, and takes the lock there.
func checkTarget(ctx context.Context, path string, force bool) (*serverLock, error) {
	_, identified := identify(ctx, path)
	switch err := identified; {
	case errors.Is(err, ErrNotFound):
		if left := leftovers(path); len(left) > 0 && !force {
			return nil, fmt.Errorf("%w: %s exists", ErrRefused, left[0])
		}
	case err == nil, errors.Is(err, ErrCorrupt), errors.Is(err, ErrNewer):
		if !force {
			return nil, fmt.Errorf("%w: %s exists", ErrRefused, path)
		}
	default: // a foreign file is not ours to replace
		return nil, err
	}
	l, err := lock(path)
	if err == nil && !errors.Is(identified, ErrNotFound) {
		if err = l.lockFile(path); err != nil {
			l.unlock()
		}
	}
	return l, err
}

// retire makes sure that nobody has the database at path open, and that its journals are gone: SQLite would play the write-ahead log
// of the old database into the new one.
//
// To leave WAL mode, SQLite takes the file for itself alone, moves the log into it and deletes the log. So a crash before the new file
// is in place leaves the old database, whole.
func retire(ctx context.Context, path string) error {
	if _, err := identify(ctx, path); err == nil || errors.Is(err, ErrNewer) {
		db, err := connect(path, "mode=rw")
		if err != nil {
			return err
		}
		defer db.Close()
		var mode string
		err = sentinel(db.QueryRowContext(ctx, "PRAGMA journal_mode = DELETE").Scan(&mode))
		if isBusy(err) || err == nil && mode != "delete" {
			return fmt.Errorf("%w: another program has %s open", ErrInUse, path)
		}
		if err != nil {
			return err
		}
		if err := db.Close(); err != nil {
			return err
		}
	}
	for _, left := range leftovers(path) { // of a database that is gone, or too damaged for SQLite to open
		if err := os.Remove(left); err != nil {
			return err
		}
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
