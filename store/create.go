package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/sqlite"
)

// create makes a new database at path, where there is no file or an empty one. It is built whole beside path and then put in place, so
// that a crash at any moment leaves either no database or a whole one.
func create(ctx context.Context, path, schema string, d cred.Domain, master *seal.Master) error {
	d.TrustDomain = cmp.Or(d.TrustDomain, "attestd.local")
	d.Service = cmp.Or(d.Service, "service")
	if err := d.Check(); err != nil {
		return err
	}
	if left := leftovers(path); len(left) > 0 {
		return fmt.Errorf("%w: %s belongs to a database that is gone; put that back, or move this away", ErrRefused, left[0])
	}
	tmp, err := newTemp(path)
	if err != nil {
		return err
	}
	defer tmp.discard()
	if err = build(ctx, tmp.path, schema, d, master); err == nil {
		err = placeNew(tmp.path, path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func build(ctx context.Context, path, schema string, d cred.Domain, master *seal.Master) error {
	db, err := sqlite.Open(path, sqlite.ModeCreate)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return sentinel(err)
	}
	defer tx.Rollback() // nothing to do after the commit
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return sentinel(err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ('service_name', ?), ('trust_domain', ?), ('database_id', lower(hex(randomblob(16))))",
		d.Service, d.TrustDomain); err != nil {
		return sentinel(err)
	}
	if master != nil {
		for name, value := range newSealing(*master, newLookupKey()) {
			if _, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES (?, ?)", name, value); err != nil {
				return sentinel(err)
			}
		}
	}
	if err := tx.Commit(); err != nil {
		return sentinel(err)
	}
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return sentinel(err)
	}
	return db.Close()
}

// leftovers lists the journals beside path. SQLite would play one that an earlier database left into whatever file is put at path.
func leftovers(path string) (found []string) {
	for _, suffix := range []string{"-wal", "-journal"} {
		if _, err := os.Lstat(path + suffix); err == nil {
			found = append(found, path+suffix)
		}
	}
	return found
}

// placeNew is place, but over an empty file, which counts as none.
func placeNew(tmp, path string) error {
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return replace(tmp, path)
	}
	return place(tmp, path)
}

// replace gives the finished file tmp the name path, durably, in the place of the file that has it.
func replace(tmp, path string) error {
	if err := syncFile(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(path)
}

// place gives the finished file tmp the name path, durably, and never over a file that is there: fs.ErrExist.
func place(tmp, path string) error {
	if err := syncFile(tmp); err != nil {
		return err
	}
	err := os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		return err
	}
	if err != nil { // a file system without links: take the name with an empty file, which counts as none, and fill it
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), os.Rename(tmp, path)); err != nil {
			return err
		}
	}
	return syncDir(path)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncDir makes the names in the folder of path durable. Windows has no such call and needs none.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
