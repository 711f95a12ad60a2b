package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// Backup writes a verified copy of the database at path to a new file with mode 0600. It returns
// ErrRefused if the file exists. progress may be nil. Backup works while a server runs. A chain
// that does not verify is a *VerifyError, and a failure of Check against schema is ErrCorrupt;
// neither leaves a file.
func Backup(ctx context.Context, path, out, schema string, progress func(stage string, done, total int64)) error {
	out, err := db.Absolute(out)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w: %s exists", store.ErrRefused, out), err)
	}
	if path, err = db.Absolute(path); err != nil {
		return err
	}
	tmp, err := checkedCopy(ctx, path, out, schema, progress)
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	defer tmp.Discard()
	if err := sqlite.Place(tmp.Path, out); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists", store.ErrRefused, out)
	} else if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	return nil
}

// checkedCopy copies a snapshot of the database at from to a temporary file next to its
// destination, and verifies the whole copy. The caller MUST discard it, even after renaming it.
func checkedCopy(
	ctx context.Context, from, to, schema string, progress func(stage string, done, total int64),
) (tmp *sqlite.Temp, err error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	if tmp, err = compactCopy(ctx, from, to, progress); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			tmp.Discard()
		}
	}()
	copied, err := store.OpenReadOnly(ctx, tmp.Path)
	if err != nil {
		return tmp, err
	}
	defer copied.Close()
	// Verify chains first, because company and index in the error say more than the name of a
	// trigger that an attacker dropped to alter a chain.
	if err := copied.VerifyContents(ctx, runtime.GOMAXPROCS(0), func(done, total int64) {
		progress("verify", done, total)
	}); err != nil {
		return tmp, err
	}
	info, err := os.Stat(tmp.Path)
	if err != nil {
		return tmp, err
	}
	progress("check", 0, info.Size())
	if err := CheckFile(ctx, copied, schema); err != nil {
		return tmp, fmt.Errorf("check the copy of %s: %w", from, err)
	}
	progress("check", info.Size(), info.Size())
	return tmp, nil
}

// compactCopy copies the database at from, without its free pages, to a temporary file next to its
// destination.
func compactCopy(
	ctx context.Context, from, to string, progress func(stage string, done, total int64),
) (tmp *sqlite.Temp, err error) {
	if progress == nil {
		progress = func(string, int64, int64) {}
	}
	source, err := store.OpenReadOnly(ctx, from)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	if tmp, err = sqlite.NewTemp(to); err != nil {
		return nil, err
	}
	var size int64
	err = source.Read(ctx, func(r *db.Conn) error {
		if err := r.One([]any{&size}, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"); err != nil {
			return err
		}
		progress("copy", 0, size)
		return r.Script(ctx, "VACUUM INTO ?", tmp.Path)
	})
	if err != nil {
		tmp.Discard()
		return nil, fmt.Errorf("copy %s: %w", from, err)
	}
	progress("copy", size, size)
	return tmp, nil
}

// CheckFile lets SQLite check every page and index of the file, and then calls Store.Check.
func CheckFile(ctx context.Context, s *store.Store, schema string) error {
	if err := s.Read(ctx, func(r *db.Conn) error { return r.CheckPages(ctx) }); err != nil {
		return err
	}
	return s.Check(ctx, schema)
}
