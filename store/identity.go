package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"attestd/store/db"
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

// The names in the table setting for what awaits a control record, or was recorded last.
const (
	trustSetting   = "trust_settings" // last argument of RecordStart, in JSON
	restoreSetting = "restored"       // restore without a control record yet, in JSON
	// number of the newest company that had registered by the last start, in JSON
	agreedSetting = "settings_agreed"
)

// sharedSettings reads what the last start of any server has stored, or nil before the first one.
// Control records say this of the settings, and not what one process was given: servers may differ
// in version and settings, and each log is compared with the row. Transactions that change rows are
// serialized, so no start comes between reading it and the commit.
func sharedSettings(c *db.Conn) (trust map[string]string, err error) {
	var text string
	err = c.One([]any{&text}, `SELECT value FROM setting WHERE name = ?`, trustSetting)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		if err = json.Unmarshal([]byte(text), &trust); err != nil {
			err = fmt.Errorf("%w: setting %s: %w", db.ErrCorrupt, trustSetting, err)
		}
	}
	return trust, err
}

// fingerprint is what a control record says of the key of the HMACs.
func fingerprintOfRowKey(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("fingerprint of the key of rows"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}
