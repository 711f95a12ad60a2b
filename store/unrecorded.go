package store

import (
	"encoding/json"
	"errors"
	"time"

	"attestd/chain"
	"attestd/store/atrest"
)

// unrecordedSetting is the row of table setting with what was done to a database while nobody could
// sign records of it, in JSON: the next start makes the control records.
const unrecordedSetting = "unrecorded"

// unrecorded is what waits for its control record.
type unrecorded struct {
	Action  ControlAction  `json:"action"`
	Company string         `json:"company,omitempty"` // whose log; "" for those of all
	Subject string         `json:"subject"`
	Details map[string]any `json:"details"`
}

// leaveUnrecorded adds something to what the next start records.
func leaveUnrecorded(w *conn, next ...unrecorded) error {
	var list []unrecorded
	if err := takeSetting(w, unrecordedSetting, &list); err != nil {
		return err
	}
	text, err := json.Marshal(append(list, next...))
	if err == nil {
		_, err = w.exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, unrecordedSetting, string(text))
	}
	return err
}

// takeUnrecorded takes out what waits for its control record.
func takeUnrecorded(w *conn) (list []unrecorded, err error) {
	err = takeSetting(w, unrecordedSetting, &list)
	return list, err
}

// readUnrecorded reads what waits for its control record, and leaves it there.
func readUnrecorded(r *conn) (list []unrecorded, err error) {
	var text string
	err = r.one([]any{&text}, `SELECT value FROM setting WHERE name = ?`, unrecordedSetting)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &list)
	}
	return list, err
}

// unrecordedRekey says how the keys at rest were sealed, and are now.
func unrecordedRekey(from, to atrest.Sealing, at time.Time) unrecorded {
	return unrecorded{Action: DatabaseRekeyed, Subject: subjectDatabase, Details: map[string]any{"from": from.String(), "to": to.String(), "rekeyedAt": chain.FormatTime(at)}}
}

// unrecordedMove says from where a copy was made, and with which digest.
func unrecordedMove(from, to *Store, digest string, at time.Time) unrecorded {
	return unrecorded{Action: DatabaseMoved, Subject: subjectDatabase, Details: map[string]any{"from": from.engine(), "to": to.engine(), "digest": digest, "movedAt": chain.FormatTime(at)}}
}

// unrecordedHeadFile says that a head file was made for a database that was there already, and so
// trusts what it was then.
func unrecordedHeadFile(at time.Time) unrecorded {
	return unrecorded{Action: HeadFileMade, Subject: subjectDatabase, Details: map[string]any{"madeAt": chain.FormatTime(at)}}
}

func (s *Store) engine() string {
	if s.server {
		return "PostgreSQL"
	}
	return "file"
}
