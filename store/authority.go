package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store/db"
	"attestd/store/projection"
)

// ControlEntry locates a change in a control log.
type ControlEntry struct {
	Index     int64
	Timestamp string
	Action    ControlAction
	// fingerprint of the credential; nil for the command line and for the registration of a company
	By *string
}

// ControlQuery selects one record about a subject from the records [From, To) of a control log.
type ControlQuery struct {
	Subject  string
	From, To int64
	Action   ControlAction // "" for any
	Last     bool          // the last match instead of the first
}

// AboutAgent returns the subject of control records about an agent.
func AboutAgent(id string) string { return agents.about(id) }

// AboutPassport returns the subject of control records about a passport.
func AboutPassport(jti string) string { return passports.about(jti) }

// AboutPolicies is the subject of control records about the policies by which calls are decided.
const AboutPolicies = "policies"

// AboutApproval returns the subject of control records about an approval.
func AboutApproval(id string) string { return projection.SubjectApproval + id }

// AboutPasskey returns the subject of control records about a passkey.
func AboutPasskey(credentialID string) string { return passkeys.about(credentialID) }

// AboutPerson returns the subject of control records about a person.
func AboutPerson(id string) string { return people.about(id) }

// AboutAgentKey returns the subject of control records about a key of an agent.
func AboutAgentKey(thumbprint string) string { return agentKeys.about(thumbprint) }

// AboutSigningKey returns the subject of control records about a signing key of a company.
func AboutSigningKey(kid string) string { return signingKeys.about(kid) }

// controlRecords is the SQL for the records [?2, ?3) of a control log about the subject ?1. It uses
// an index.
const controlRecords = ` FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?1 AND id >= ?2 AND id < ?3`

// ControlEntry returns the record that a query selects, or nil.
func (v *View) ControlEntry(ctx context.Context, c *Company, q ControlQuery) (*ControlEntry, error) {
	query := `SELECT id, timestamp, json_extract(payload, '$.actionType'), json_extract(payload, '$.payload.by')` + controlRecords + `
		AND ?4 IN ('', json_extract(payload, '$.actionType')) ORDER BY id`
	if q.Last {
		query += " DESC"
	}
	var id int64
	var e ControlEntry
	err := v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&id, &e.Timestamp, &e.Action, &e.By}, query+" LIMIT 1",
			q.Subject, db.RecordID(c.Control.Chain, q.From), db.RecordID(c.Control.Chain, q.To), q.Action)
	})
	if errors.Is(err, db.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("control records of company %q about %s: %w", c.ID, q.Subject, err)
	}
	e.Index = id & db.IndexMask
	return &e, nil
}

// BeginsWithRegistration reports whether the first control record of a company is its registration.
// Then no change is older than the log.
func (v *View) BeginsWithRegistration(ctx context.Context, c *Company) (is bool, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		return r.One([]any{&is}, `SELECT json_extract(payload, '$.actionType') = ? FROM record WHERE id = ?`,
			CompanyRegistered, db.RecordID(c.Control.Chain, 0))
	})
	return is, err
}

// PassportsAt returns up to most passports of an agent that were valid at a time according to the
// table, oldest first.
func (v *View) PassportsAt(
	ctx context.Context, c *Company, agentID string, at time.Time, most int,
) (found []Passport, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		found = nil
		return r.Each(func(rows *sql.Rows) error {
			p, err := scanPassport(rows)
			found = append(found, p)
			return err
		}, "SELECT "+passports.list("passport")+` FROM passport WHERE company = ? AND issued_at BETWEEN ? AND ? AND agent_id = ? AND expires_at > ?
			AND (revoked_at IS NULL OR revoked_at > ?) ORDER BY issued_at, id LIMIT ?`,
			c.Chain, at.Add(-cred.MaxPassportTTL).Unix(), at.Unix(), agentID, at.Unix(), chain.FormatTime(at), most)
	})
	return found, err
}

// StoredPassport reads a passport from the table without checking it against the control log. It
// returns ErrNotFound for an unknown one.
func (v *View) StoredPassport(ctx context.Context, c *Company, jti string) (p Passport, err error) {
	err = v.Read(ctx, func(r *db.Conn) error {
		p, err = findPassport(r, c.Chain, jti)
		return err
	})
	return p, err
}
