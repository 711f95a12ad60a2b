package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"attestd/crypto/cred"
	"attestd/store/atrest"
	"attestd/store/sqlite"
)

// Identify returns the settings of the database at path without changing it. Its errors are
// ErrNotFound for a missing or empty file, ErrRefused for one that is not a regular file,
// ErrForeign, ErrNewer and ErrCorrupt. It reads the header before it opens the file, because
// opening a database in WAL mode creates files next to it.
func Identify(ctx context.Context, path string) (Settings, error) {
	PrepareDriver()
	header, err := sqlite.ReadHeader(path)
	if err != nil {
		return Settings{}, err
	}
	switch {
	case len(header) == 0:
		if _, err := os.Stat(path); err == nil {
			return Settings{}, fmt.Errorf("database %w: %s is an empty file", ErrNotFound, path)
		}
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
	mode, err := sqlite.InspectMode(path)
	if err != nil {
		return Settings{}, err
	}
	db, err := sqlite.Open(path, mode)
	if err != nil {
		return Settings{}, err
	}
	defer db.Close()
	c, err := Dial(ctx, db)
	if err != nil {
		return Settings{}, fmt.Errorf("%s: %w", path, sqlite.ReadError(ctx, path, err))
	}
	defer c.Close()
	found, err := readSettings(c, path)
	return found, sqlite.ReadError(ctx, path, err)
}

func checkVersion(path string, v int64) error {
	switch {
	case v > SchemaVersion:
		return fmt.Errorf("%s: %w: schema %d, this one knows %d", path, ErrNewer, v, SchemaVersion)
	case v < oldestSchema:
		return fmt.Errorf("%s: %w: schema %d", path, ErrCorrupt, v)
	}
	return nil
}

// Settings has the content of the table setting.
type Settings struct {
	cred.Domain
	Sealing atrest.Sealing
}

// settingsOf reads the table setting of either engine.
func settingsOf(c *Conn) (Settings, error) {
	values := map[string]string{}
	err := c.Each(func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		values[name] = value
		return err
	}, "SELECT name, value FROM setting")
	if err != nil {
		return Settings{}, err
	}
	return parseSettings(values)
}

// readSettings queries SQLite, because the write-ahead log may have a newer version than the
// header. It reads one row of every table, which detects truncated or overwritten files; only a
// full check finds all damage.
func readSettings(c *Conn, path string) (found Settings, err error) {
	var version int64
	if err = c.One([]any{&version}, "PRAGMA user_version"); err == nil {
		if err := checkVersion(path, version); err != nil {
			return found, err
		}
		err = c.checkRealTables()
	}
	if err == nil {
		found, err = settingsOf(c)
	}
	for _, table := range tables {
		if err == nil {
			err = c.Each(func(*sql.Rows) error { return nil }, "SELECT * FROM "+table+" LIMIT 1")
		}
	}
	switch {
	case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrCorrupt):
	default: // a table or a setting is missing
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

// tables are those of the oldest schema, which every later one has too.
var tables = []string{"setting", "company", "record", "node", "head", "api_key", "oauth_client", "oauth_token", "agent",
	"passport"}

// Absolute resolves links in path, so that every name of a database finds the same lock.
func Absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // the file does not exist yet
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("folder of %s: %w", path, ErrNotFound)
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}
