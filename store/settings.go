package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"attestd/chain"
)

// The rows of table setting that wait for a control record, or say what was recorded last.
const (
	trustSetting   = "trust_settings" // what RecordStart was given last, in JSON
	restoreSetting = "restored"       // a restoration, in JSON, that no control record tells of yet
)

// restoration is a restore as the file that was put in place carries it to its next start.
type restoration struct {
	RestoredAt string `json:"restoredAt"`
	// the lengths of the logs that were there before, by company
	Replaced map[string]map[LogName]int64 `json:"replaced"`
}

// RecordStart makes control records, in the logs of all companies, of what has changed since the
// last start: settings that bear on trust, by their names, and what was done while nobody could
// record it: a restore, a move, another master key, a head file that was made, a key that was
// shown. What has not changed is not recorded. A company that registers is told the settings of its
// time. In a database of before the log of the companies it makes that.
func (s *Store) RecordStart(ctx context.Context, trust map[string]string) error {
	trust = maps.Clone(trust)
	if trust == nil {
		trust = map[string]string{}
	}
	trust["keysAtRest"] = s.settings.Sealing.String()
	s.trust.Store(&trust)
	_, err := s.change(ctx, func(w *conn) ([]chain.Draft, error) {
		changed, err := replaceSettings(w, trust)
		if err != nil {
			return nil, err
		}
		restored, err := drainRestoration(w)
		if err != nil {
			return nil, err
		}
		waiting, err := drainUnrecorded(w)
		if err != nil {
			return nil, err
		}
		var drafts []chain.Draft
		if len(changed) == 0 && restored == nil && len(waiting) == 0 {
			return s.Companies.listOlder(w, time.Now())
		}
		err = w.each(func(rows *sql.Rows) error {
			c := new(Company)
			if err := rows.Scan(&c.ID, &c.Control.Chain); err != nil {
				return err
			}
			var events []controlEvent
			if restored != nil {
				details := map[string]any{"restoredAt": restored.RestoredAt, "replaced": restored.Replaced[c.ID]}
				events = append(events, controlEvent{DatabaseRestored, SubjectDatabase, details})
			}
			for _, u := range waiting {
				if u.Company == "" || u.Company == c.ID {
					events = append(events, controlEvent{u.Action, u.Subject, u.Details})
				}
			}
			if len(changed) > 0 {
				events = append(events, controlEvent{SettingsChanged, SubjectDatabase, map[string]any{"changed": changed}})
			}
			for _, e := range events {
				d, err := s.controlDraft(Caller{Company: c}, e)
				if err != nil {
					return err
				}
				drafts = append(drafts, d)
			}
			return nil
		}, `SELECT company_id, chain FROM company JOIN log ON log.company = company.id AND name = 'control' ORDER BY company.id`)
		if err != nil {
			return nil, err
		}
		listed, err := s.Companies.listOlder(w, time.Now())
		return append(drafts, listed...), err
	})
	if err != nil {
		return fmt.Errorf("record what has changed since the last start: %w", err)
	}
	return nil
}

// settingChange is how a setting was before and is now; nil where it was not known.
type settingChange struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// replaceSettings keeps the settings, and returns those that differ from what was kept before.
func replaceSettings(w *conn, trust map[string]string) (map[string]settingChange, error) {
	before := map[string]string{}
	if err := drainSetting(w, trustSetting, &before); err != nil {
		return nil, err
	}
	changed := map[string]settingChange{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(trust))) {
		var c settingChange
		if from, was := before[name]; was {
			c.From = &from
		}
		if to, is := trust[name]; is {
			c.To = &to
		}
		if c.From == nil || c.To == nil || *c.From != *c.To {
			changed[name] = c
		}
	}
	text, err := json.Marshal(trust)
	if err == nil {
		_, err = w.exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, trustSetting, string(text))
	}
	return changed, err
}

// drainRestoration takes out what a restore has left to be recorded, nil for nothing.
func drainRestoration(w *conn) (r *restoration, err error) {
	err = drainSetting(w, restoreSetting, &r)
	return r, err
}

// drainSetting reads a setting in JSON and takes it out. Where there is none, into stays as it is.
func drainSetting(w *conn, name string, into any) error {
	var text string
	err := w.one([]any{&text}, `DELETE FROM setting WHERE name = ? RETURNING value`, name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		if err = json.Unmarshal([]byte(text), into); err != nil {
			err = fmt.Errorf("%w: setting %s: %w", ErrCorrupt, name, err)
		}
	}
	return err
}

// LeaveRestored leaves what the next start is to record of a restore in the database that was put
// in place: when, and the lengths of the logs that were there before, by company.
func LeaveRestored(c Conn, at time.Time, replaced map[string]map[LogName]int64) error {
	text, err := json.Marshal(restoration{chain.FormatTime(at), replaced})
	if err == nil {
		_, err = c.Exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, restoreSetting, string(text))
	}
	return err
}
