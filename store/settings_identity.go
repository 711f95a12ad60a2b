package store

import (
	"fmt"
	"maps"
	"time"

	"attestd/store/db"
	"attestd/store/postgres"
	"attestd/store/projection"
)

// identify adds what the database is to the settings of a start, unless the logs say something
// else.
func (s Settings) identify(w *db.Conn, trust map[string]string, key []byte) error {
	logged, isThere, err := loggedSettings(w, installation())
	if err != nil {
		return s.db.noted(theDatabase, err)
	}
	has, err := s.keys.readIdentity(w)
	if err != nil {
		return err
	}
	if d := logged.Fixed(has); d != nil {
		return s.db.noted(theDatabase, changedTables(&Company{ID: db.InstallationID}, d))
	}
	s.db.changed.remove(theDatabase.Chain)
	delete(has, projection.SettingRowKey)
	maps.Copy(trust, has)
	_, signed := logged.Settings[projection.SettingRowKey]
	if !signed {
		signed, err = s.mayDemandMACs(w, logged, isThere)
		if err == nil && signed {
			err = s.keys.adoptRows(w)
		}
	}
	if err == nil && signed {
		trust[projection.SettingRowKey] = fingerprintOfRowKey(key)
		if s.db.MultiWriter() {
			err = demandSchema(w)
		}
	}
	return err
}

// mayDemandMACs reports whether every program that writes rows knows of HMACs. A file has one
// server. On PostgreSQL older servers may share the database: then their rows have none, and count.
func (s Settings) mayDemandMACs(w *db.Conn, logged *projection.State, isThere bool) (bool, error) {
	if !s.db.MultiWriter() {
		return true, nil
	}
	var older bool
	var text string
	if err := w.One([]any{&older, &text}, `SELECT EXISTS (SELECT FROM writer WHERE schema IS NULL), to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`); err != nil || older {
		return false, err
	}
	if !isThere {
		return true, nil // there is no company yet
	}
	if logged.IdentifiedAt == "" {
		return false, nil
	}
	since, err := db.ParseTime(logged.IdentifiedAt)
	if err != nil {
		return false, err
	}
	now, err := db.ParseTime(text)
	return err == nil && now.Sub(since) >= olderServersGone, err
}

// olderServersGone is how long after the first start of a program with HMACs a server of an older
// one may still come.
const olderServersGone = 24 * time.Hour

// demandSchema keeps programs from starting that do not know of HMACs.
func demandSchema(w *db.Conn) error {
	const name = "schema_compatible"
	n, err := w.Exec(`DELETE FROM setting WHERE name = ? AND value <> ?`, name, fmt.Sprint(postgres.Version))
	if err == nil && n > 0 {
		_, err = w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, name, fmt.Sprint(postgres.Version))
	}
	return err
}
