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

// The names in the table setting for what awaits a control record, or was recorded last.
const (
	trustSetting   = "trust_settings" // last argument of RecordStart, in JSON
	restoreSetting = "restored"       // restore without a control record yet, in JSON
)

// restoration describes a restore. The restored file carries it until its next start.
type restoration struct {
	RestoredAt string `json:"restoredAt"`
	// lengths of the replaced logs, by company
	Replaced map[string]map[LogName]int64 `json:"replaced"`
}

// RecordStart appends control records, in the logs of all companies, about what has changed since
// the last start: settings that affect trust, by their names, and operations while no server could
// record them, such as a restore, a move, another master key, a new head file or a recovered key.
// Without changes it appends nothing. The registration of a company records the settings at that
// time. In a database from before the log of the companies, RecordStart creates that log.
//
// The settings that are fixed for a database are among them: the logs say what it is, and it is
// compared with them. If it is something else, RecordStart appends nothing and returns a
// *TablesChangedError, and no company is changed. Once the logs have the fingerprint of the key of
// HMACs, each row that may have an HMAC must have one: RecordStart gives one to the rows from
// before.
func (s *Store) RecordStart(ctx context.Context, trust map[string]string) error {
	if s.writer == nil {
		return errReadOnly
	}
	key, err := s.Credentials.sharedKey(ctx)
	if err != nil {
		return fmt.Errorf("record what has changed since the last start: %w", err)
	}
	trust = maps.Clone(trust)
	if trust == nil {
		trust = map[string]string{}
	}
	trust["keysAtRest"] = s.settings.Sealing.String()
	if given := maps.Clone(trust); s.trust.Load() == nil { // whatever becomes of this
		s.trust.Store(&given)
	}
	_, err = s.change(ctx, func(w *conn) ([]chain.Draft, error) {
		if err := s.identify(w, trust, key); err != nil {
			return nil, err
		}
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
			return nil, s.Tables.noted(theDatabase, err)
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
		}, `SELECT company_id, chain FROM company JOIN log ON log.company = company.id AND name = 'control'
			ORDER BY company.id`)
		if err != nil {
			return nil, err
		}
		listed, err := s.Companies.listOlder(w, time.Now())
		return append(drafts, listed...), err
	})
	if err != nil {
		return fmt.Errorf("record what has changed since the last start: %w", err)
	}
	s.trust.Store(&trust)
	return nil
}

// settingChange has the values of a setting before and now, nil if unset.
type settingChange struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// replaceSettings stores the settings, and returns those that differ from the stored ones.
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

// drainRestoration removes and returns the pending restore, or nil.
func drainRestoration(w *conn) (r *restoration, err error) {
	err = drainSetting(w, restoreSetting, &r)
	return r, err
}

// drainSetting removes a setting and decodes its JSON. If there is none, into is unchanged.
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

// LeaveRestored stores in a restored database what its next start records: the time of the restore,
// and the lengths of the replaced logs by company.
func LeaveRestored(c Conn, at time.Time, replaced map[string]map[LogName]int64) error {
	text, err := json.Marshal(restoration{chain.FormatTime(at), replaced})
	if err == nil {
		_, err = c.Exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE
			SET value = excluded.value`, restoreSetting, string(text))
	}
	return err
}
