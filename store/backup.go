package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// Backup writes a checked copy of the database at path into a new file, 0600; ErrRefused when it exists. progress may be nil.
// It works beside a running server. A chain that does not verify is a *VerifyError, and leaves no file.
//
// The stages of progress are "copy" and "check" in bytes, and "verify" in records.
func Backup(ctx context.Context, path, out string, progress func(stage string, done, total int64)) error {
	out, err := absolute(out)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w: %s exists", ErrRefused, out), err)
	}
	if path, err = absolute(path); err != nil {
		return err
	}
	tmp, err := checkedCopy(ctx, path, out, progress)
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer tmp.discard()
	if err := place(tmp.path, out); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists", ErrRefused, out)
	} else if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

// checkedCopy copies the database at from, as one moment saw it, into a temporary file beside the place that it is meant for, and
// checks the copy wholly. The caller discards it, whether or not it has given it another name.
func checkedCopy(ctx context.Context, from, to string, progress func(stage string, done, total int64)) (tmp *temp, err error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	source, err := OpenReadOnly(ctx, from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if tmp, err = newTemp(to); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			tmp.discard()
		}
	}()
	var size int64
	err = source.read(ctx, func(r *conn) error {
		if err := r.one([]any{&size}, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"); err != nil {
			return err
		}
		progress("copy", 0, size)
		_, err := r.sql.ExecContext(ctx, "VACUUM INTO ?", tmp.path)
		return sentinel(err)
	})
	if err != nil {
		return tmp, fmt.Errorf("copy %s: %w", from, err)
	}
	progress("copy", size, size)

	copied, err := OpenReadOnly(ctx, tmp.path)
	if err != nil {
		return tmp, err
	}
	defer copied.Close()
	// Chains first: where one fails, company and index say more than the name of a trigger that was dropped to change it.
	if err := copied.VerifyAll(ctx, "", runtime.GOMAXPROCS(0), nil, func(done, total int64) { progress("verify", done, total) }); err != nil {
		return tmp, err
	}
	progress("check", 0, size)
	if err := copied.checkFile(ctx); err != nil {
		return tmp, fmt.Errorf("check the copy of %s: %w", from, err)
	}
	progress("check", size, size)
	return tmp, nil
}

// checks are the questions to a whole file that it must answer with no row. Without its guards a chain would verify, and lie open.
var checks = []struct{ query, wrong string }{
	{`SELECT "table" FROM pragma_foreign_key_check LIMIT 1`, "a row refers to a company that is not there, in table"},
	{`WITH guard (name) AS (VALUES ('record_no_update'), ('record_no_delete'), ('record_no_replace'), ('node_no_update'),
		('node_no_delete'), ('head_only_grows'), ('head_no_delete'), ('company_no_update'), ('company_no_delete'))
		SELECT name FROM guard WHERE name NOT IN (SELECT name FROM sqlite_schema WHERE type = 'trigger')`, "missing trigger"},
}

// checkFile lets SQLite check every page, index and reference of the file, and looks for the guards: ErrCorrupt.
func (s *Store) checkFile(ctx context.Context) error {
	return s.read(ctx, func(r *conn) error {
		var found string
		if err := r.sql.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
			return sentinel(err)
		}
		if found != "ok" {
			return fmt.Errorf("%w: %s", ErrCorrupt, found)
		}
		for _, c := range checks {
			err := r.one([]any{&found}, c.query)
			if err == nil {
				err = fmt.Errorf("%w: %s %s", ErrCorrupt, c.wrong, found)
			}
			if !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		return nil
	})
}
