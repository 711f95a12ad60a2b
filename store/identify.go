package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"attestd/crypto/cred"
	"attestd/store/atrest"
	"attestd/store/sqlite"
)

// identify says what the file at path is, without changing it: ErrNotFound when there is none or it
// is empty, ErrRefused when it is not a plain file, ErrForeign, ErrNewer, ErrCorrupt. A foreign
// file is read, not opened: to open a database in WAL mode is to lay files beside it.
func identify(ctx context.Context, path string) (settings, error) {
	header, err := sqlite.ReadHeader(path)
	if err != nil {
		return settings{}, err
	}
	switch {
	case len(header) == 0:
		return settings{}, fmt.Errorf("%s: %w", path, ErrNotFound)
	case !header.IsSQLite():
		return settings{}, fmt.Errorf("%s: %w", path, ErrForeign)
	case !header.Whole():
		return settings{}, fmt.Errorf("%s: %w", path, ErrCorrupt)
	case header.Application() != sqlite.ApplicationID:
		return settings{}, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	if err := checkVersion(path, header.UserVersion()); err != nil {
		return settings{}, err
	}
	mode, err := sqlite.LookMode(path)
	if err != nil {
		return settings{}, err
	}
	db, err := sqlite.Open(path, mode)
	if err != nil {
		return settings{}, err
	}
	defer db.Close()
	c, err := dial(ctx, db)
	if err != nil {
		return settings{}, fmt.Errorf("%s: %w", path, sqlite.ReadError(ctx, path, err))
	}
	defer c.close()
	found, err := readSettings(c, path)
	return found, sqlite.ReadError(ctx, path, err)
}

func checkVersion(path string, v int64) error {
	switch {
	case v > schemaVersion:
		return fmt.Errorf("%s: %w: schema %d, this one knows %d", path, ErrNewer, v, schemaVersion)
	case v < oldestSchema:
		return fmt.Errorf("%s: %w: schema %d", path, ErrCorrupt, v)
	}
	return nil
}

// settings are what the table setting says.
type settings struct {
	cred.Domain
	sealing atrest.Sealing
}

// readSettings asks SQLite itself: the write-ahead log may know of a newer version than the header
// does. It reads a little of every table, which finds files cut short or overwritten; finding all
// damage takes a full check.
func readSettings(c *conn, path string) (found settings, err error) {
	var version int64
	if err = c.one([]any{&version}, "PRAGMA user_version"); err == nil {
		if err := checkVersion(path, version); err != nil {
			return found, err
		}
		values := map[string]string{}
		err = c.each(func(rows *sql.Rows) error {
			var name, value string
			err := rows.Scan(&name, &value)
			values[name] = value
			return err
		}, "SELECT name, value FROM setting")
		if err == nil {
			found, err = parseSettings(values)
		}
	}
	for _, table := range tables {
		if err == nil {
			err = c.each(func(*sql.Rows) error { return nil }, "SELECT * FROM "+table+" LIMIT 1")
		}
	}
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrCorrupt):
	default: // no such table, no such setting
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return found, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

func parseSettings(values map[string]string) (s settings, err error) {
	s.Service, s.TrustDomain = values["service_name"], values["trust_domain"]
	if s.Service == "" || s.TrustDomain == "" {
		return s, fmt.Errorf("%w: no service name, or no trust domain", ErrCorrupt)
	}
	s.sealing, err = atrest.ParseSealing(values)
	return s, err
}

// tables are those of the oldest schema, which every later one has as well.
var tables = []string{"setting", "company", "record", "node", "head", "api_key", "oauth_client", "oauth_token", "agent", "passport"}

// absolute resolves path to one name for one file, so that a link to a database meets the lock of
// that database.
func absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // the file is not there yet
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("folder of %s: %w", path, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}
