package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"time"

	"attestd/store/db"
	"attestd/store/postgres"
	"attestd/store/projection"
)

// The table setting identifies a database: the service's name, the trust domain and its ID. The
// control logs repeat them, with the fingerprint of the key of the HMACs over rows, so that none of
// them can be exchanged: see RecordStart.

// identitySettings maps rows of the table setting to their names in control records.
var identitySettings = map[string]string{
	"service_name": projection.SettingService, "trust_domain": projection.SettingTrustDomain, "database_id": projection.SettingDatabaseID,
}

// readIdentity reads what the database says that it is. The fingerprint of the key of HMACs is
// missing if there is no key, or this process cannot read it.
func (s rowKeys) readIdentity(c *db.Conn) (has map[string]string, err error) {
	has = map[string]string{}
	err = c.Each(func(rows *sql.Rows) error {
		var name, value string
		err := rows.Scan(&name, &value)
		if as, is := identitySettings[name]; is {
			has[as] = value
		}
		return err
	}, `SELECT name, value FROM setting WHERE name IN ('service_name', 'trust_domain', 'database_id')`)
	if err != nil || !s.db.IsUnsealed() {
		return has, err
	}
	key, err := s.readTokenKey(c)
	switch {
	case errors.Is(err, db.ErrNotFound), errors.Is(err, db.ErrCorrupt):
		// Fixed reports it as missing
		return has, nil
	case err == nil:
		has[projection.SettingRowKey] = fingerprintOfRowKey(key)
	}
	return has, err
}

// installation is the owner of the log of the companies, with its names and chains alone.
func installation() *Company {
	c := &Company{Chain: db.Installation, ID: db.InstallationID}
	c.Actions.Chain, c.Control.Chain = db.Actions.ChainID(db.Installation), CompanyLogChain
	return c
}

// loggedSettings replays what the control log of a company says of settings. ok is false before
// there is one.
func loggedSettings(c *db.Conn, company *Company) (state *projection.State, ok bool, err error) {
	state = projection.New(company.ID)
	apply := func(rows *sql.Rows) error {
		var id int64
		var timestamp string
		var payload []byte
		if err := rows.Scan(&id, &timestamp, &payload); err != nil {
			return err
		}
		ok = true
		return state.Apply(id&db.IndexMask, timestamp, payload)
	}
	const columns = `SELECT id, timestamp, payload FROM record WHERE `
	first, last := db.RecordIDs(company.Control.Chain)
	err = c.Each(apply, columns+`id = ?`, first) // the registration
	if err == nil {
		err = c.Each(apply, columns+`id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?
			AND id BETWEEN ? AND ? ORDER BY id`, SubjectDatabase, first, last)
	}
	var unread *projection.RecordError
	if errors.As(err, &unread) {
		err = changedTables(company, &projection.Difference{Table: "record", Row: "control", Index: unread.Index, What: unread.Error()})
	}
	return state, ok, err
}

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

// olderServersGone is how long after the first start of a program with HMACs a server of an older
// one may still come.
const olderServersGone = 24 * time.Hour

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

// demandSchema keeps programs from starting that do not know of HMACs.
func demandSchema(w *db.Conn) error {
	const name = "schema_compatible"
	n, err := w.Exec(`DELETE FROM setting WHERE name = ? AND value <> ?`, name, fmt.Sprint(postgres.Version))
	if err == nil && n > 0 {
		_, err = w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, name, fmt.Sprint(postgres.Version))
	}
	return err
}

// theDatabase replaces the company of a difference that concerns all of them.
var theDatabase = &Company{ID: db.InstallationID}

// CheckIdentity compares what the database says that it is with the control log, and with what this
// process has read at its start, and looks at what the next start is to record. A difference is a
// *TablesChangedError, is remembered, and stops the changes of all companies.
func (s Tables) CheckIdentity(ctx context.Context) error {
	return s.db.Read(ctx, func(c *db.Conn) error {
		logged, _, err := loggedSettings(c, installation())
		if err != nil {
			return s.db.noted(theDatabase, err)
		}
		has, err := s.keys.readIdentity(c)
		if err != nil {
			return err
		}
		d := logged.Fixed(has)
		if d == nil {
			now := projection.New(db.InstallationID)
			now.Settings = map[string]string{projection.SettingService: s.db.Domain().Service, projection.SettingTrustDomain: s.db.Domain().TrustDomain}
			d = now.Fixed(has)
		}
		if d != nil {
			return s.db.noted(theDatabase, changedTables(theDatabase, d))
		}
		waiting, err := ReadUnrecorded(c)
		for i := 0; err == nil && i < len(waiting); i++ {
			err = waiting[i].check()
		}
		if err != nil {
			return s.db.noted(theDatabase, err)
		}
		s.db.changed.remove(theDatabase.Chain)
		return nil
	})
}
