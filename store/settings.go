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
	"attestd/store/db"
	"attestd/store/projection"
)

// Settings has the settings that affect trust, which the control logs repeat, and the changes that
// await a record there.
type Settings struct {
	db        *base
	keys      rowKeys
	companies Companies
}

// restoration describes a restore. The restored file carries it until its next start.
type restoration struct {
	RestoredAt string `json:"restoredAt"`
	// lengths of the replaced logs, by company
	Replaced map[string]map[db.LogName]int64 `json:"replaced"`
}

// RecordStart appends control records, in the logs of all companies, about what has changed since
// the last start: settings that affect trust, by their names, and operations while no server could
// record them, such as a restore, a move, another master key, a new head file or a recovered key.
// Without changes it appends nothing. The registration of a company records what the last start of
// any server has stored. Where a log says something else, because an older program wrote it there,
// RecordStart records the difference in that log. In a database from before the log of the
// companies, RecordStart creates that log.
//
// The settings that are fixed for a database are among them: the logs say what it is, and it is
// compared with them. If it is something else, RecordStart appends nothing and returns a
// *TablesChangedError, and no company is changed. Once the logs have the fingerprint of the key of
// HMACs, each row that may have an HMAC must have one: RecordStart gives one to the rows from
// before.
func (s Settings) RecordStart(ctx context.Context, trust map[string]string) error {
	if s.db.IsReadOnly() {
		return db.ErrReadOnly
	}
	key, err := s.keys.sharedKey(ctx)
	if err != nil {
		return fmt.Errorf("record what has changed since the last start: %w", err)
	}
	trust = maps.Clone(trust)
	if trust == nil {
		trust = map[string]string{}
	}
	trust["keysAtRest"] = s.db.Sealing().String()
	if err := s.agree(ctx, trust, key); err != nil {
		return fmt.Errorf("record what the logs say otherwise than the last start: %w", err)
	}
	_, err = s.db.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) {
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
			return nil, s.db.noted(theDatabase, err)
		}
		agreed, err := agreedTo(w)
		if err == nil {
			err = replaceAgreed(w, db.Installation)
		}
		if err != nil {
			return nil, err
		}
		after := agreed // all others have nothing to record
		if len(changed) > 0 || restored != nil || len(waiting) > 0 {
			after = 0
		}
		companies, err := db.All(w, scanControl, selectControl+` ORDER BY company.id`, after)
		if err != nil {
			return nil, err
		}
		var drafts []chain.Draft
		for _, c := range companies {
			changed := changed
			if c.Chain > agreed {
				changed, err = s.unlikeLogged(w, c, trust)
				// a record that cannot be read concerns this company alone
				if err != nil && !errors.Is(err, ErrTablesChanged) {
					return nil, err
				}
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
				events = append(events, settingsChanged(changed))
			}
			written, err := s.db.controlDrafts(Caller{Company: c}, events...)
			if err != nil {
				return nil, err
			}
			drafts = append(drafts, written...)
		}
		listed, err := s.companies.listOlder(w, time.Now())
		return append(drafts, listed...), err
	})
	if err != nil {
		return fmt.Errorf("record what has changed since the last start: %w", err)
	}
	return nil
}

// settingChange has the values of a setting before and now, nil if unset.
type settingChange struct {
	From *string `json:"from"`
	To   *string `json:"to"`
}

// replaceSettings stores the settings, and returns those that differ from the stored ones.
func replaceSettings(w *db.Conn, trust map[string]string) (map[string]settingChange, error) {
	before := map[string]string{}
	if err := drainSetting(w, trustSetting, &before); err != nil {
		return nil, err
	}
	text, err := json.Marshal(trust)
	if err == nil {
		_, err = w.Exec(`INSERT INTO setting (name, value) VALUES (?, ?)`, trustSetting, string(text))
	}
	return settingChanges(before, trust), err
}

// settingChanges returns the settings that differ.
func settingChanges(before, now map[string]string) map[string]settingChange {
	changed := map[string]settingChange{}
	for _, name := range slices.Concat(slices.Collect(maps.Keys(before)), slices.Collect(maps.Keys(now))) {
		var c settingChange
		if from, was := before[name]; was {
			c.From = &from
		}
		if to, is := now[name]; is {
			c.To = &to
		}
		if c.From == nil || c.To == nil || *c.From != *c.To {
			changed[name] = c
		}
	}
	return changed
}

// agreedTo returns up to which company the logs say what is stored of the settings. A company that
// an older program has registered since may say what that program was given.
func agreedTo(c *db.Conn) (agreed int64, err error) {
	err = c.One([]any{&agreed}, `SELECT coalesce((SELECT CAST(value AS BIGINT) FROM setting WHERE name = ?), 0)`, agreedSetting)
	return agreed, err
}

// replaceAgreed stores that the logs of all companies below a number say what is stored.
func replaceAgreed(w *db.Conn, below int64) error {
	_, err := w.Exec(`DELETE FROM setting WHERE name = ?`, agreedSetting)
	if err == nil {
		_, err = w.Exec(`INSERT INTO setting (name, value) SELECT ?, CAST(coalesce(max(id), 0) AS TEXT) FROM company WHERE id < ?`,
			agreedSetting, below)
	}
	return err
}

// agreeStep is the number of companies that one transaction compares with the stored settings.
const agreeStep = 256

// agree compares the logs with the stored settings while there are so many companies to compare
// that the transaction of a start would last long, as at the first start of this version. What
// differs is recorded. It leaves the last agreeStep companies to the start itself.
func (s Settings) agree(ctx context.Context, trust map[string]string, key []byte) error {
	for {
		var left int64
		err := s.db.Read(ctx, func(c *db.Conn) error {
			agreed, err := agreedTo(c)
			if err == nil {
				err = c.One([]any{&left}, `SELECT count(*) FROM company WHERE id > ? AND id < ?`, agreed, int64(db.Installation))
			}
			return err
		})
		if err != nil || left <= agreeStep {
			return err
		}
		_, err = s.db.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) {
			if err := s.identify(w, maps.Clone(trust), key); err != nil {
				return nil, err
			}
			return s.agreeSome(w)
		})
		if err != nil {
			return err
		}
	}
}

// AgreeSettings does the same while servers run, for companies that a server of an older version
// has registered meanwhile. The stored settings count only as far as the log of the companies says
// the same, which verify verifies where something is to be recorded: a tampered row is recorded
// nowhere.
func (s Settings) AgreeSettings(ctx context.Context, verify func(context.Context) error) error {
	isNew, differs := false, false
	var last int64
	err := s.db.Read(ctx, func(c *db.Conn) error {
		agreed, err := agreedTo(c)
		if err != nil {
			return err
		}
		var differ []unlike
		differ, last, err = s.unlikeStored(c, agreed)
		isNew, differs = last > agreed, len(differ) > 0
		return err
	})
	if err == nil && differs {
		err = verify(ctx)
	}
	if err != nil || !isNew {
		return err
	}
	_, err = s.db.Change(ctx, func(w *db.Conn) ([]chain.Draft, error) {
		stored, err := sharedSettings(w)
		if err != nil || stored == nil {
			return nil, err
		}
		if changed, err := s.unlikeLogged(w, installation(), stored); err != nil || len(changed) > 0 {
			return nil, err
		}
		if !differs { // what has come since is compared, and the log verified, by the next call
			return nil, replaceAgreed(w, last+1)
		}
		return s.agreeSome(w)
	})
	return err
}

// agreeSome is one step of agree.
func (s Settings) agreeSome(w *db.Conn) (drafts []chain.Draft, err error) {
	agreed, err := agreedTo(w)
	if err != nil {
		return nil, err
	}
	differ, last, err := s.unlikeStored(w, agreed)
	for _, of := range differ {
		var d chain.Draft
		if err == nil {
			d, err = s.db.controlDraft(Caller{Company: of.company}, settingsChanged(of.changed))
			drafts = append(drafts, d)
		}
	}
	if err == nil && last > agreed {
		err = replaceAgreed(w, last+1)
	}
	return drafts, err
}

// unlike is a company whose log says other settings than are stored.
type unlike struct {
	company *Company
	changed map[string]settingChange
}

// unlikeStored compares the logs of the next companies behind a number with the stored settings. It
// returns the number of the last one, or the given number where none follows.
func (s Settings) unlikeStored(c *db.Conn, after int64) (differ []unlike, last int64, err error) {
	stored, err := sharedSettings(c)
	if err != nil {
		return nil, after, err
	}
	companies, err := db.All(c, scanControl, selectControl+` AND company.id < ? ORDER BY company.id LIMIT ?`, after, int64(db.Installation), agreeStep)
	for i := 0; err == nil && i < len(companies); i++ {
		last = companies[i].Chain
		if stored == nil {
			continue
		}
		var changed map[string]settingChange
		changed, err = s.unlikeLogged(c, companies[i], stored)
		if errors.Is(err, ErrTablesChanged) { // which concerns this company alone
			changed, err = nil, nil
		}
		if len(changed) > 0 {
			differ = append(differ, unlike{companies[i], changed})
		}
	}
	return differ, max(last, after), err
}

// selectControl is the SQL for the companies behind a number, with what scanControl reads.
const selectControl = `SELECT company.id, company_id, chain FROM company JOIN log ON log.company = company.id AND name = 'control'
	WHERE company.id > ?`

func scanControl(rows *sql.Rows) (*Company, error) {
	c := new(Company)
	err := rows.Scan(&c.Chain, &c.ID, &c.Control.Chain)
	return c, err
}

func settingsChanged(changed map[string]settingChange) controlEvent {
	return controlEvent{SettingsChanged, SubjectDatabase, map[string]any{"changed": changed}}
}

// unlikeLogged returns the settings that differ from what the control log of a company says. What
// is fixed stays what the log says of it: if the database is something else, that is no change. A
// record that cannot be read is a *TablesChangedError, which is remembered of the company alone.
func (s Settings) unlikeLogged(c *db.Conn, company *Company, trust map[string]string) (map[string]settingChange, error) {
	logged, _, err := loggedSettings(c, company)
	if err != nil {
		return nil, s.db.noted(company, err)
	}
	changed := settingChanges(logged.Settings, trust)
	for _, name := range projection.FixedSettings {
		if _, is := logged.Settings[name]; is {
			delete(changed, name)
		}
	}
	return changed, nil
}

// drainRestoration removes and returns the pending restore, or nil.
func drainRestoration(w *db.Conn) (r *restoration, err error) {
	err = drainSetting(w, restoreSetting, &r)
	return r, err
}

// LeaveRestored stores in a restored database what its next start records: the time of the restore,
// and the lengths of the replaced logs by company.
func LeaveRestored(c *db.Conn, at time.Time, replaced map[string]map[db.LogName]int64) error {
	text, err := json.Marshal(restoration{chain.FormatTime(at), replaced})
	if err == nil {
		_, err = c.Exec(`INSERT INTO setting (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE
			SET value = excluded.value`, restoreSetting, string(text))
	}
	return err
}
