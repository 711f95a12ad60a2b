package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"attestd/chain"
	"attestd/store/projection"
)

// adoptStep is how many rows are adopted or accepted in one transaction.
const adoptStep = 256

// Check compares the tables of a company with its control log, which the caller has verified,
// and remembers what differs: a *TablesChangedError. Rows of before the log are adopted: each gets
// a record of its own, so that from then on the log tells of every row.
func (s Tables) Check(ctx context.Context, number int64) error {
	c, err := s.db.Companies.named(ctx, number)
	if err != nil {
		return err
	}
	found, err := s.replay(ctx, c)
	if err != nil {
		return err
	}
	if err := found.err(); err != nil {
		return s.noted(c, err)
	}
	s.db.changed.remove(c.Chain)
	if found.complete || s.db.writer == nil {
		return nil
	}
	if err := s.enter(ctx, c, RowAdopted, found.unrecorded, nil); err != nil {
		return fmt.Errorf("adopt the rows of company %q: %w", c.ID, err)
	}
	// a company that is remembered does not know that its log tells of all
	s.db.Companies.forgetKeys()
	return nil
}

// enter makes a record of each row that a difference names, as it stands when that is written, and
// behind them one that says that the log tells of all; details are its further members.
func (s Tables) enter(ctx context.Context, c *Company, action ControlAction, rows []*projection.Difference, details map[string]any) error {
	for {
		step := rows[:min(adoptStep, len(rows))]
		rows = rows[len(step):]
		isLast := len(rows) == 0
		_, err := s.db.change(ctx, func(w *conn) (drafts []chain.Draft, err error) {
			for _, d := range step {
				event, err := s.rowEvent(w, c, action, d)
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
			company, err := s.companyRow(w, c)
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

// rowEvent reads a row again, in the transaction that tells of it. A row of the company itself
// stands in the last record.
func (s Tables) rowEvent(w *conn, c *Company, action ControlAction, d *projection.Difference) (e controlEvent, err error) {
	t := tableOf(d.Table)
	if t == nil {
		return e, nil
	}
	var key any = d.Row
	if k, is := d.Has.(projection.SigningKey); is {
		key = k.Generation
	}
	var has any // null where the row is gone
	found, err := row(w, func(rows *sql.Rows) (obeyedRow, error) { return t.scan(s.db, c, rows) }, t.query+t.key+" = ?2", c.Chain, key)
	switch {
	case err == nil:
		has = found.row
	case !errors.Is(err, ErrNotFound):
		return e, err
	}
	subject := map[string]func(string) string{
		projection.TableAPIKey: subjectAPIKey, projection.TableClient: subjectClient, projection.TableAgent: subjectAgent,
		projection.TablePassport: subjectPassport, projection.TableWebhook: subjectWebhook,
		projection.TableSigningKey: func(string) string { return subjectSigningKey(kidOf(d.Row)) },
	}[d.Table](d.Row)
	return controlEvent{action, subject, map[string]any{"table": d.Table, "name": d.Row, "row": has}}, nil
}

// Compare returns in what the tables of a company differ from its control log, and how many
// rows more do; ErrNotFound.
func (s Tables) Compare(ctx context.Context, company string) (c *Company, differences []*projection.Difference, more int64, err error) {
	listed, err := s.db.listCompanies(ctx, `company_id = ?`, company)
	if err == nil && len(listed) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, nil, 0, fmt.Errorf("company %q: %w", company, err)
	}
	if c, err = s.db.Companies.named(ctx, listed[0].Chain); err != nil {
		return nil, nil, 0, err
	}
	found, err := s.replay(ctx, c)
	if err != nil {
		return nil, nil, 0, err
	}
	return c, found.differences, found.more, nil
}

// Accept makes a record of each row that differs, so that the control log says what the tables
// say, and one with the reason.
func (s Tables) Accept(ctx context.Context, c *Company, differences []*projection.Difference, reason string) error {
	if err := s.enter(ctx, c, RowAccepted, differences, map[string]any{"reason": reason, "rows": len(differences)}); err != nil {
		return fmt.Errorf("accept the tables of company %q: %w", c.ID, err)
	}
	s.db.changed.remove(c.Chain)
	return nil
}

// kidOf is the kid of a key with a fingerprint: the beginning of the same hash, in hex.
func kidOf(fingerprint string) string {
	sum, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(fingerprint, "SHA256:"))
	if err != nil || len(sum) < 8 {
		return ""
	}
	return hex.EncodeToString(sum[:8])
}
