package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
)

// ControlEntry is the place of a change in a control log.
type ControlEntry struct {
	Index     int64
	Timestamp string
	Action    ControlAction
	// fingerprint of the credential; nil for the command line and a company's registration
	By *string
}

// ControlQuery asks for one of the records of [From, To) of a control log that are about a subject.
type ControlQuery struct {
	Subject  string
	From, To int64
	Action   ControlAction // "" for any
	Last     bool          // the last one, and not the first
}

// AboutAgent is the subject of control records about an agent.
func AboutAgent(id string) string { return subjectAgent(id) }

// AboutPassport is the subject of control records about a passport.
func AboutPassport(jti string) string { return subjectPassport(jti) }

// AboutSigningKey is the subject of control records about a company's key.
func AboutSigningKey(kid string) string { return subjectSigningKey(kid) }

// Complete says whether the control log tells of every row of the company that the service obeys.
func (c *Company) Complete() bool { return c.complete }

// controlRecords is the SQL for the records of a control log about a subject, ?1, from ?2 on and
// before ?3. An index finds them.
const controlRecords = ` FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?1 AND id >= ?2 AND id < ?3`

// ControlEntry returns the record that a query asks for; nil for none.
func (v *View) ControlEntry(ctx context.Context, c *Company, q ControlQuery) (*ControlEntry, error) {
	query := `SELECT id, timestamp, json_extract(payload, '$.actionType'), json_extract(payload, '$.payload.by')` + controlRecords + `
		AND ?4 IN ('', json_extract(payload, '$.actionType')) ORDER BY id`
	if q.Last {
		query += " DESC"
	}
	var id int64
	var e ControlEntry
	err := v.read(ctx, func(r *conn) error {
		return r.one([]any{&id, &e.Timestamp, &e.Action, &e.By}, query+" LIMIT 1",
			q.Subject, recordID(c.Control.Chain, q.From), recordID(c.Control.Chain, q.To), q.Action)
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("control records of company %q about %s: %w", c.ID, q.Subject, err)
	}
	e.Index = id & indexMask
	return &e, nil
}

// BeginsWithRegistration says whether the first control record of a company is its registration, so
// that nothing was changed before the log began.
func (v *View) BeginsWithRegistration(ctx context.Context, c *Company) (is bool, err error) {
	err = v.read(ctx, func(r *conn) error {
		return r.one([]any{&is}, `SELECT json_extract(payload, '$.actionType') = ? FROM record WHERE id = ?`, CompanyRegistered, recordID(c.Control.Chain, 0))
	})
	return is, err
}

// PassportsAt returns the first of the passports of an agent that were valid at a time, as the
// table says.
func (v *View) PassportsAt(ctx context.Context, c *Company, agentID string, at time.Time, most int) (found []Passport, err error) {
	err = v.read(ctx, func(r *conn) error {
		found = nil
		return r.each(func(rows *sql.Rows) error {
			p, err := scanPassport(rows)
			found = append(found, p)
			return err
		}, "SELECT "+passportColumns+` FROM passport WHERE company = ? AND issued_at BETWEEN ? AND ? AND agent_id = ? AND expires_at > ?
			AND (revoked_at IS NULL OR revoked_at > ?) ORDER BY issued_at, id LIMIT ?`,
			c.Chain, at.Add(-cred.MaxPassportTTL).Unix(), at.Unix(), agentID, at.Unix(), chain.FormatTime(at), most)
	})
	return found, err
}

// StoredPassport reads a passport as the table has it, whatever the control log says; ErrNotFound.
func (v *View) StoredPassport(ctx context.Context, c *Company, jti string) (p Passport, err error) {
	err = v.read(ctx, func(r *conn) error {
		p, err = findPassport(r, c.Chain, jti)
		return err
	})
	return p, err
}
