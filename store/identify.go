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

// Identify says what the file at path is, without changing it: ErrNotFound when there is none or it
// is empty, ErrRefused when it is not a plain file, ErrForeign, ErrNewer, ErrCorrupt. A foreign
// file is read, not opened: to open a database in WAL mode is to lay files beside it.
func Identify(ctx context.Context, path string) (Settings, error) {
	prepareDriver()
	header, err := sqlite.ReadHeader(path)
	if err != nil {
		return Settings{}, err
	}
	switch {
	case len(header) == 0:
		return Settings{}, fmt.Errorf("%s: %w", path, ErrNotFound)
	case !header.IsSQLite():
		return Settings{}, fmt.Errorf("%s: %w", path, ErrForeign)
	case !header.Whole():
		return Settings{}, fmt.Errorf("%s: %w", path, ErrCorrupt)
	case header.Application() != sqlite.ApplicationID:
		return Settings{}, fmt.Errorf("%s: %w", path, ErrForeign)
	}
	if err := checkVersion(path, header.UserVersion()); err != nil {
		return Settings{}, err
	}
	mode, err := sqlite.LookMode(path)
	if err != nil {
		return Settings{}, err
	}
	db, err := sqlite.Open(path, mode)
	if err != nil {
		return Settings{}, err
	}
	defer db.Close()
	c, err := dial(ctx, db)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, sqlite.ReadError(ctx, path, err))
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

// Settings are what the table setting says.
type Settings struct {
	cred.Domain
	Sealing atrest.Sealing
}

// readSettings asks SQLite itself: the write-ahead log may know of a newer version than the header
// does. It reads a little of every table, which finds files cut short or overwritten; finding all
// damage takes a full check.
func readSettings(c *conn, path string) (found Settings, err error) {
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

func parseSettings(values map[string]string) (s Settings, err error) {
	s.Service, s.TrustDomain = values["service_name"], values["trust_domain"]
	if s.Service == "" || s.TrustDomain == "" {
		return s, fmt.Errorf("%w: no service name, or no trust domain", ErrCorrupt)
	}
	s.Sealing, err = atrest.ParseSealing(values)
	return s, err
}

// tables are those of the oldest schema, which every later one has as well.
var tables = []string{"setting", "company", "record", "node", "head", "api_key", "oauth_client", "oauth_token", "agent", "passport"}

// Absolute resolves path to one name for one file, so that a link to a database meets the lock of
// that database.
func Absolute(path string) (string, error) {
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
