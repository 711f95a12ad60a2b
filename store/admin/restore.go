package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// RestoreOptions are the options of Restore, mainly for a database that exists at the destination.
type RestoreOptions struct {
	// replace an existing database if nothing is lost
	Force bool
	// with Force: replace it whatever is lost
	AcceptRollback bool
	// time of the restore, which the next start records in the control logs
	At       time.Time
	Progress func(stage string, done, total int64) // as for Backup; may be nil
}

// Restore verifies the backup at in completely (integrity, schema, every chain) and then puts it at
// path. undone is what the restore undoes of the existing database at path, or, with ErrRefused,
// would undo. It also returns ErrRefused if path exists and Force is not set, ErrInUse, ErrForeign
// for a foreign file at either path, and a *VerifyError for a chain that does not verify.
func Restore(ctx context.Context, in, path, schema string, o RestoreOptions) (undone Rollback, err error) {
	if in, err = db.Absolute(in); err != nil {
		return undone, err
	}
	if path, err = db.Absolute(path); err != nil {
		return undone, err
	}
	l, err := checkTarget(ctx, path, o.Force)
	if err != nil {
		return undone, err
	}
	defer l.Unlock()

	tmp, err := checkedCopy(ctx, in, path, schema, o.Progress)
	if err != nil {
		return undone, fmt.Errorf("restore: %w", err)
	}
	defer tmp.Discard()
	if !o.Force {
		if err = markRestored(ctx, tmp.Path, o.At, nil); err == nil {
			err = sqlite.PlaceNew(tmp.Path, path)
		}
	} else {
		if undone, err = findRollback(ctx, path, tmp.Path); err != nil {
			return undone, fmt.Errorf("restore: compare %s with the backup: %w", path, err)
		}
		if len(undone.Lines) > 0 && !o.AcceptRollback {
			return undone, fmt.Errorf("%w: %s has what the backup lacks; --force --accept-rollback replaces it all the same",
				store.ErrRefused, path)
		}
		if err = markRestored(ctx, tmp.Path, o.At, undone.replaced); err == nil {
			err = retire(ctx, path)
		}
		if err == nil {
			err = sqlite.Replace(tmp.Path, path)
		}
	}
	if err != nil {
		return undone, fmt.Errorf("restore: %w", err)
	}
	return undone, nil
}

// checkTarget checks that a database may be put at path, and acquires its lock.
func checkTarget(ctx context.Context, path string, force bool) (*sqlite.Lock, error) {
	_, identified := db.Identify(ctx, path)
	switch err := identified; {
	case errors.Is(err, store.ErrNotFound):
		if left := sqlite.Leftovers(path); len(left) > 0 && !force {
			return nil, fmt.Errorf("%w: %s exists", store.ErrRefused, left[0])
		}
	case err == nil, errors.Is(err, store.ErrCorrupt), errors.Is(err, store.ErrNewer):
		if !force {
			return nil, fmt.Errorf("%w: %s exists", store.ErrRefused, path)
		}
	default: // a foreign file must not be replaced
		return nil, err
	}
	l, err := sqlite.LockName(path)
	if err == nil && !errors.Is(identified, store.ErrNotFound) {
		if err = l.LockFile(path); err != nil {
			l.Unlock()
		}
	}
	return l, err
}

// retire ensures that no process has the database at path open, and that its journals are gone.
func retire(ctx context.Context, path string) error {
	_, err := db.Identify(ctx, path)
	return sqlite.Retire(ctx, path, err == nil || errors.Is(err, store.ErrNewer))
}

// markRestored stores in the database at path, which must not be open elsewhere, what its next
// start records.
func markRestored(ctx context.Context, path string, at time.Time, replaced map[string]map[store.LogName]int64) error {
	return db.OnFile(ctx, path, sqlite.ModeCreate, func(c *db.Conn) error {
		return store.LeaveRestored(c, at, replaced)
	})
}
