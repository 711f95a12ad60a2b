package store

import (
	"encoding/json"
	"errors"
	"time"

	"attestd/chain"
)

// unrecordedSetting is the row of table setting with what was done to a database while nobody could
// sign records of it, in JSON: the next start makes the control records.
const unrecordedSetting = "unrecorded"

// Unrecorded is what waits for its control record.
type Unrecorded struct {
	Action  ControlAction  `json:"action"`
	Company string         `json:"company,omitempty"` // whose log; "" for those of all
	Subject string         `json:"subject"`
	Details map[string]any `json:"details"`
}

// leaveUnrecorded adds something to what the next start records.
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

// LeaveUnrecorded adds something to what the next start records.
func LeaveUnrecorded(w Conn, next ...Unrecorded) error { return leaveUnrecorded(w.conn, next...) }

// drainUnrecorded takes out what waits for its control record.
func drainUnrecorded(w *conn) (list []Unrecorded, err error) {
	err = drainSetting(w, unrecordedSetting, &list)
	return list, err
}

// ReadUnrecorded reads what waits for its control record, and leaves it there.
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

// unrecordedHeadFile says that a head file was made for a database that was there already, and so
// trusts what it was then.
func unrecordedHeadFile(at time.Time) Unrecorded {
	return Unrecorded{Action: HeadFileMade, Subject: SubjectDatabase, Details: map[string]any{"madeAt": chain.FormatTime(at)}}
}
