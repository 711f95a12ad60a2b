package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/store/db"
	"attestd/store/projection"
)

// adoptStep is the number of rows that one transaction adopts or accepts.
const adoptStep = 256

// Check compares the tables of a company with its control log, which the caller has verified, and
// with its actions. A difference is a *TablesChangedError, and is remembered. Rows from before the
// log are adopted: each gets a record, so that from then on the log covers every row. Sessions
// without statements that are not listed are listed.
func (s Tables) Check(ctx context.Context, number int64) error {
	return s.CheckPaced(ctx, number, nil)
}

// CheckPaced is Check with pauses.
func (s Tables) CheckPaced(ctx context.Context, number int64, pace Pace) error {
	return s.checkScope(ctx, number, everything, pace)
}

// CheckRights is Check of what follows from the control log alone.
func (s Tables) CheckRights(ctx context.Context, number int64) error {
	return s.checkScope(ctx, number, onlyRights, nil)
}

// CheckNames is Check of what follows from the actions alone.
func (s Tables) CheckNames(ctx context.Context, number int64) error {
	return s.checkScope(ctx, number, onlyNames, nil)
}

func (s Tables) checkScope(ctx context.Context, number int64, of scope, pace Pace) error {
	c, err := s.db.named(ctx, number)
	if err != nil {
		return err
	}
	found, err := s.replay(ctx, c, of, pace)
	if err != nil {
		return s.db.noted(c, err)
	}
	if err := found.err(); err != nil {
		return s.db.noted(c, err)
	}
	if of == everything {
		s.db.changed.remove(c.Chain)
	}
	if s.db.IsReadOnly() {
		return nil
	}
	if len(found.unlisted) > 0 {
		by := Caller{Company: c, At: time.Now()}
		if err := s.sessions.Note(ctx, by, slices.Collect(maps.Keys(found.unlisted))...); err != nil {
			return err
		}
	}
	if of == onlyNames || found.complete {
		return nil
	}
	if err := s.enter(ctx, c, RowAdopted, found.unrecorded, nil); err != nil {
		return fmt.Errorf("adopt the rows of company %q: %w", c.ID, err)
	}
	// a cached company still has complete == false
	s.companies.forgetKeys()
	return nil
}

// enter appends a record of each row in a list of differences, with the row's content at that time,
// and finally a record that the log is complete, with details as further members.
func (s Tables) enter(
	ctx context.Context, c *Company, action ControlAction, rows []*projection.Difference,
	details map[string]any,
) error {
	for {
		step := rows[:min(adoptStep, len(rows))]
		rows = rows[len(step):]
		isLast := len(rows) == 0
		_, err := s.db.Change(ctx, func(w *db.Conn) (drafts []chain.Draft, err error) {
			for _, d := range step {
				event, err := s.rowEvent(w, c, action, d)
				for _, t := range macTables {
					if err == nil && action == RowAccepted && d.Table == t.name {
						err = s.keys.sign(w, t, fmt.Sprintf(`SELECT %s FROM %s WHERE company = ? AND %s = ?`, t.all(), t.name, t.title), c.Chain, d.Row)
					}
				}
				if err != nil {
					return nil, err
				}
				if event.action == "" {
					continue
				}
				draft, err := s.db.controlDraft(Caller{Company: c}, event)
				if err != nil {
					return nil, err
				}
				drafts = append(drafts, draft)
			}
			if !isLast {
				return drafts, nil
			}
			company, err := companyRow(w, c)
			if err != nil {
				return nil, err
			}
			all := map[string]any{"row": company}
			for name, value := range details {
				all[name] = value
			}
			end := TablesAdopted
			if action == RowAccepted {
				end = TablesAccepted
			}
			draft, err := s.db.controlDraft(Caller{Company: c}, controlEvent{end, subjectCompany(c.ID), all})
			return append(drafts, draft), err
		})
		if err != nil || isLast {
			return err
		}
	}
}

// rowEvent reads a row again, in the transaction that records it. The row of the company itself is
// in the last record instead.
func (s Tables) rowEvent(
	w *db.Conn, c *Company, action ControlAction, d *projection.Difference,
) (e controlEvent, err error) {
	if d.Table == projection.TableName || d.Table == projection.TableSession {
		return controlEvent{action, subjectName(d.Row), map[string]any{"table": d.Table, "name": d.Row, "row": nil}}, nil
	}
	switch d.Table {
	case projection.TableSetting:
		return s.settingsEvent(w, c)
	case projection.TableCedarSet:
		if err := s.cedar.writeSet(w, c); err != nil {
			return e, err
		}
	case projection.TableToken, projection.TableFederatedToken, projection.TablePersonSession:
		hash, err := hex.DecodeString(d.Row)
		if err == nil {
			_, err = w.Exec(`DELETE FROM `+d.Table+` WHERE substr(hash, 1, ?) = ?`, len(hash), hash)
		}
		return e, err
	}
	t := tableOf(d.Table)
	if t == nil {
		return e, nil
	}
	query, args := t.query, []any{c.Chain}
	if t.title != "" {
		var key any = d.Row
		if k, is := d.Has.(projection.SigningKey); is {
			key = k.Generation
		}
		query, args = query+" AND "+t.title+" = ?2", append(args, key)
	}
	var has any // null if the row is gone
	found, err := db.Row(w, func(rows *sql.Rows) (obeyedRow, error) {
		return t.scan(s.db, c, rows)
	}, query, args...)
	switch {
	case err == nil:
		has = found.row
	case !errors.Is(err, db.ErrNotFound):
		return e, err
	}
	name := d.Row
	if d.Table == projection.TableSigningKey {
		name = kidOf(d.Row)
	}
	return controlEvent{action: action, subject: t.about(name), details: map[string]any{"table": d.Table, "name": d.Row, "row": has}}, nil
}

// settingsEvent records in the log of a company all settings in which it differs from what the last
// start has stored.
func (s Tables) settingsEvent(w *db.Conn, c *Company) (e controlEvent, err error) {
	trust, err := sharedSettings(w)
	if err != nil {
		return e, err
	}
	changed, err := s.settings.unlikeLogged(w, c, trust)
	return settingsChanged(changed), err
}

// Compare returns the differences between the tables of a company and its control log, and the
// number of further ones. It returns ErrNotFound for an unknown company.
func (s Tables) Compare(
	ctx context.Context, company string,
) (c *Company, differences []*projection.Difference, more int64, err error) {
	var number int64
	err = s.db.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&number}, `SELECT id FROM company WHERE company_id = ?`, company)
	})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("company %q: %w", company, err)
	}
	if c, err = s.db.named(ctx, number); err != nil {
		return nil, nil, 0, err
	}
	found, err := s.replay(ctx, c, everything, nil)
	if err != nil {
		return nil, nil, 0, err
	}
	return c, found.differences, found.more, nil
}

// Accept appends a record of each differing row, so that the control log matches the tables, and
// one with the reason. Rows that are under an HMAC get theirs. Names and sessions are rebuilt from
// the action records, which are in a log already and are the only truth. Access tokens whose HMAC
// is wrong are invalid, and are deleted.
func (s Tables) Accept(ctx context.Context, c *Company, differences []*projection.Difference, reason string) error {
	follows := func(d *projection.Difference) bool {
		return d.Table == projection.TableName || d.Table == projection.TableSession
	}
	if slices.ContainsFunc(differences, follows) {
		if err := s.repairNames(ctx, c); err != nil {
			return fmt.Errorf("repair the names of company %q: %w", c.ID, err)
		}
	}
	ofPolicy := func(d *projection.Difference) bool { return d.Table == projection.TableCedarPolicy }
	if slices.ContainsFunc(differences, ofPolicy) { // the accepted policies make another set
		differences = append(slices.Clone(differences), &projection.Difference{Table: projection.TableCedarSet})
	}
	if err := s.enter(ctx, c, RowAccepted, differences,
		map[string]any{"reason": reason, "rows": len(differences)}); err != nil {
		return fmt.Errorf("accept the tables of company %q: %w", c.ID, err)
	}
	s.db.changed.remove(c.Chain)
	s.db.Names().Settle(c.Actions.Chain, s.db.Names().Now(), nil)
	return nil
}

// kidOf returns the kid of the key with a fingerprint. Both are made from the same hash; the kid is
// its beginning in hex.
func kidOf(fingerprint string) string {
	sum, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(fingerprint, "SHA256:"))
	if err != nil || len(sum) < 8 {
		return ""
	}
	return hex.EncodeToString(sum[:8])
}
