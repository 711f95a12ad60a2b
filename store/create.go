package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"

	"attestd/crypto/cred"
	"attestd/crypto/seal"
	"attestd/store/atrest"
	"attestd/store/sqlite"
)

// create makes a new database at path, where there is no file or an empty one. It is built whole
// beside path and then put in place, so that a crash at any moment leaves either no database or a
// whole one.
func create(ctx context.Context, path, schema string, d cred.Domain, master *seal.Master) error {
	settings, err := newSettings(d, master)
	if err != nil {
		return err
	}
	if left := sqlite.Leftovers(path); len(left) > 0 {
		return fmt.Errorf("%w: %s belongs to a database that is gone; put that back, or move this away", ErrRefused, left[0])
	}
	tmp, err := sqlite.NewTemp(path)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	if err = build(ctx, tmp.Path, schema, settings); err == nil {
		err = sqlite.PlaceNew(tmp.Path, path)
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

// newSettings are those of a new database, of either engine.
func newSettings(d cred.Domain, master *seal.Master) (map[string]string, error) {
	d.TrustDomain = cmp.Or(d.TrustDomain, "attestd.local")
	d.Service = cmp.Or(d.Service, "service")
	if err := d.Check(); err != nil {
		return nil, err
	}
	_, settings := atrest.New(master, nil)
	var id [16]byte
	_, _ = rand.Read(id[:]) // never returns an error
	settings["service_name"], settings["trust_domain"], settings["database_id"] = d.Service, d.TrustDomain, hex.EncodeToString(id[:])
	return settings, nil
}

func build(ctx context.Context, path, schema string, settings map[string]string) error {
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
	for name, value := range settings {
		if _, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES (?, ?)", name, value); err != nil {
			return sentinel(err)
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
