package store

import (
	"encoding/json"
	"errors"
	"time"

	"attestd/chain"
)

// unrecordedSetting is the name in the table setting for operations on the database that nobody
// could sign a control record of, in JSON. The next start appends the records.
const unrecordedSetting = "unrecorded"

// Unrecorded is a pending control record.
type Unrecorded struct {
	Action  ControlAction  `json:"action"`
	Company string         `json:"company,omitempty"` // company of the log; "" for all companies
	Subject string         `json:"subject"`
	Details map[string]any `json:"details"`
}

// leaveUnrecorded adds pending control records.
func leaveUnrecorded(w *conn, next ...Unrecorded) error {
	var list []Unrecorded
	if err := drainSetting(w, unrecordedSetting, &list); err != nil {
		return err
	}
	text, err := json.Marshal(append(list, next...))
	if err == nil {
		_, err = w.exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, unrecordedSetting, string(text))
	}
	return err
}

// LeaveUnrecorded adds pending control records, which the next start appends.
func LeaveUnrecorded(w Conn, next ...Unrecorded) error { return leaveUnrecorded(w.conn, next...) }

// drainUnrecorded removes and returns the pending control records.
func drainUnrecorded(w *conn) (list []Unrecorded, err error) {
	err = drainSetting(w, unrecordedSetting, &list)
	return list, err
}

// ReadUnrecorded returns the pending control records without removing them.
func ReadUnrecorded(r Conn) (list []Unrecorded, err error) {
	var text string
	err = r.One([]any{&text}, `SELECT value FROM setting WHERE name = ?`, unrecordedSetting)
	if errors.Is(err, ErrNotFound) {
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
