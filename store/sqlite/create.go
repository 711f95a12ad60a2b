package sqlite

import (
	"context"
	"fmt"
)

// Create creates a database at path, where no file or an empty one exists, with a schema and the
// rows of its table setting. It builds the database next to path and then renames it, so that a
// crash leaves no database or a complete one. It returns ErrRefused.
func Create(ctx context.Context, path, schema string, settings map[string]string) error {
	if left := Leftovers(path); len(left) > 0 {
		return fmt.Errorf("%w: %s belongs to a database that is gone; put that back, or move this away", ErrRefused, left[0])
	}
	tmp, err := NewTemp(path)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err = build(ctx, tmp.Path, schema, settings); err == nil {
		err = PlaceNew(tmp.Path, path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func build(ctx context.Context, path, schema string, settings map[string]string) error {
	db, err := Open(path, ModeCreate)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after the commit
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return err
	}
	for name, value := range settings {
		if _, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES (?, ?)", name, value); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	return db.Close()
}
