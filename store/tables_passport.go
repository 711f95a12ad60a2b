package store

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"attestd/store/projection"
)

// passportLatest is the SQL for the ID of the newest control record about a passport.
var passportLatest = latestOf("passport.company", "'passport:' || jti") + ` AS latest`

// load reads a passport and checks it against the control log.
func (s Passports) load(r *conn, company *Company, jti string) (p Passport, err error) {
	var latest, disabling sql.NullInt64
	var scopes string
	var revoked, reason, jkt sql.NullString
	err = r.one([]any{&p.id, &p.JTI, &p.AgentID, &scopes, &p.IssuedAt, &p.ExpiresAt, &revoked, &reason, &jkt, &latest,
		&disabling},
		`SELECT p.id, jti, agent_id, scopes, issued_at, expires_at, revoked_at, reason, jkt, latest, `+firstDisabling("company", "agent_id", "latest")+`
		FROM (SELECT *, `+passportLatest+` FROM passport WHERE jti = ? AND company = ?) AS p`, jti, company.Chain)
	if err != nil {
		return Passport{}, err
	}
	l, err := r.controlRecord(company, latest)
	if err != nil {
		return Passport{}, s.db.Tables.noted(company, err)
	}
	disabled, err := r.controlRecord(company, disabling)
	if err != nil {
		return Passport{}, s.db.Tables.noted(company, err)
	}
	has := projection.Passport{AgentID: p.AgentID, Scopes: canonicalList(scopes), IssuedAt: p.IssuedAt,
		ExpiresAt: p.ExpiresAt,
		JKT:       jkt.String, RevokedAt: revoked.String, Reason: projection.Text{Value: reason.String, Set: reason.Valid}}
	if err := s.db.Tables.checked(company, l.Passport(jti, has, disabled)); err != nil {
		return Passport{}, err
	}
	if reason.Valid {
		p.Reason = &reason.String
	}
	p.RevokedAt, p.JKT = revoked.String, jkt.String
	if err := json.Unmarshal([]byte(scopes), &p.Scopes); err != nil {
		return Passport{}, fmt.Errorf("%w: scopes of passport %s: %w", ErrCorrupt, p.JTI, err)
	}
	return p, nil
}
