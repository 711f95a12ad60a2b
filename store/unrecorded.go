package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// unrecordedSetting is the name in the table setting for operations on the database whose control
// record could not be signed, in JSON. The next start appends the records.
const unrecordedSetting = "unrecorded"

// Unrecorded is a pending control record.
type Unrecorded struct {
	Action  ControlAction  `json:"action"`
	Company string         `json:"company,omitempty"` // company of the log; "" for all companies
	Subject string         `json:"subject"`
	Details map[string]any `json:"details"`
}

// unrecordedDetails are the records that may be pending, with the details of each. None of them
// changes a row, so an attacker who writes one into the table gains no right: at worst, a log
// records an operation that did not happen.
var unrecordedDetails = map[ControlAction][]string{
	DatabaseRekeyed: {"from", "to", "rekeyedAt"},
	DatabaseMoved:   {"from", "to", "digest", "movedAt"},
	HeadFileMade:    {"madeAt"},
	APIKeyRecovered: {"fingerprint", "via", "shownAt"},
	BytesRecounted:  {"log", "records", "from", "to"},
}

// check refuses a record that no operation leaves. Its subject and its action would say what a row
// must be.
func (u *Unrecorded) check() error {
	details, is := unrecordedDetails[u.Action]
	isAbout := u.Subject == SubjectDatabase
	switch u.Action {
	case APIKeyRecovered:
		isAbout = isAbout || strings.HasPrefix(u.Subject, subjectRecovery(""))
	case BytesRecounted:
		isAbout = u.Subject == subjectBytes
	}
	if !is || !isAbout {
		return changedTables(theDatabase, &projection.Difference{Table: projection.TableSetting, Row: unrecordedSetting, Index: -1,
			What: fmt.Sprintf("tells of %q about %q, which no operation leaves to a start: delete that row", u.Action, u.Subject)})
	}
	for name := range u.Details {
		if !slices.Contains(details, name) {
			return changedTables(theDatabase, &projection.Difference{Table: projection.TableSetting, Row: unrecordedSetting, Index: -1,
				What: fmt.Sprintf("tells of %q with the detail %q, which no operation leaves to a start: delete that row", u.Action, name)})
		}
	}
	return nil
}

// LeaveUnrecorded adds pending control records, which the next start appends.
func LeaveUnrecorded(w *db.Conn, next ...Unrecorded) error {
	var list []Unrecorded
	if err := drainSetting(w, unrecordedSetting, &list); err != nil {
		return err
	}
	text, err := json.Marshal(append(list, next...))
	if err == nil {
		_, err = w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, unrecordedSetting, string(text))
	}
	return err
}

// drainUnrecorded removes and returns the pending control records. One that no operation leaves is
// a *TablesChangedError.
func drainUnrecorded(w *db.Conn) (list []Unrecorded, err error) {
	err = drainSetting(w, unrecordedSetting, &list)
	for i := 0; err == nil && i < len(list); i++ {
		err = list[i].check()
	}
	return list, err
}

// ReadUnrecorded returns the pending control records without removing them.
func ReadUnrecorded(r *db.Conn) (list []Unrecorded, err error) {
	var text string
	err = r.One([]any{&text}, `SELECT value FROM setting WHERE name = ?`, unrecordedSetting)
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	return list, err
}

// unrecordedHeadFile returns the pending record that a head file was created for an existing
// database, whose state at that time it trusts.
func unrecordedHeadFile(at time.Time) Unrecorded {
	return Unrecorded{Action: HeadFileMade, Subject: SubjectDatabase,
		Details: map[string]any{"madeAt": chain.FormatTime(at)}}
}

// drainSetting removes a setting and decodes its JSON. If there is none, into is unchanged.
func drainSetting(w *db.Conn, name string, into any) error {
	var text string
	err := w.One([]any{&text}, `DELETE FROM setting WHERE name = ? RETURNING value`, name)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err == nil {
		if err = json.Unmarshal([]byte(text), into); err != nil {
			err = fmt.Errorf("%w: setting %s: %w", db.ErrCorrupt, name, err)
		}
	}
	return err
}
