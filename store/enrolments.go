package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"attestd/chain"
	"attestd/crypto/keys"
	"attestd/store/projection"
)

// Enrolment is a token with which an agent enrols one key.
type Enrolment struct {
	AgentID     string
	Fingerprint string
	Label       *string
	ExpiresAt   time.Time
	company     int64
	key         string // that was enrolled with it; "" for none yet
}

// EnrolmentPrefix begins every enrolment token.
const EnrolmentPrefix = "enr_"

// CreateEnrolment makes a token with which an agent enrols one key until a time; only its hash is
// kept. ErrNotFound and ErrDisabled of the agent.
func (s AgentKeys) CreateEnrolment(ctx context.Context, by Caller, agentID string, label *string, expires time.Time) (token string, err error) {
	token = keys.NewSecret(strings.TrimSuffix(EnrolmentPrefix, "_"))
	hash := keys.HashSecret(token)
	fingerprint := keys.Fingerprint(hash)
	err = s.db.controlled(ctx, by, func(w *conn) ([]controlEvent, error) {
		if err := checkEnabled(w, by.Company.Chain, agentID); err != nil {
			return nil, err
		}
		_, err := w.exec(`INSERT INTO enrolment (company, hash, fingerprint, agent_id, label, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			by.Company.Chain, hash[:], fingerprint, agentID, label, chain.FormatTime(by.At), expires.UnixMilli())
		details := map[string]any{"agentId": agentID, "fingerprint": fingerprint, "label": label, "expiresAt": chain.FormatTime(expires)}
		return []controlEvent{{EnrolmentCreated, subjectEnrolment(fingerprint), details}}, err
	})
	if err != nil {
		return "", fmt.Errorf("create an enrolment of agent %q: %w", agentID, err)
	}
	return token, nil
}

const enrolmentColumns = "company, agent_id, fingerprint, label, expires_at, key"

// scanEnrolment scans what stands behind the columns of an enrolment as well.
func scanEnrolment(rows *sql.Rows, more ...any) (e Enrolment, err error) {
	var expires int64
	var key sql.NullString
	err = rows.Scan(append([]any{&e.company, &e.AgentID, &e.Fingerprint, &e.Label, &expires, &key}, more...)...)
	e.ExpiresAt, e.key = time.UnixMilli(expires), key.String
	return e, err
}

// Enrolment finds who presents the token with this hash: a caller of its company with the role
// Enrolling, and its agent. ErrNotFound where there is none, it was spent or has ended.
func (s AgentKeys) Enrolment(ctx context.Context, hash [32]byte, now time.Time) (Caller, error) {
	var e Enrolment
	err := s.db.read(ctx, func(r *conn) (err error) {
		e, err = row(r, func(rows *sql.Rows) (Enrolment, error) { return scanEnrolment(rows) }, "SELECT "+enrolmentColumns+" FROM enrolment WHERE hash = ?", hash[:])
		return err
	})
	if err == nil && (e.key != "" || !now.Before(e.ExpiresAt) || e.Fingerprint != keys.Fingerprint(hash)) {
		err = ErrNotFound
	}
	if err != nil {
		return Caller{}, fmt.Errorf("enrolment: %w", err)
	}
	company, err := s.db.Companies.now(ctx, e.company)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Company: company, Credential: e.Fingerprint, Role: Enrolling, Agent: e.AgentID, Expires: e.ExpiresAt, At: now}, nil
}

// spend spends an enrolment on a key, after a comparison with the control record that made it.
// ErrBadEnrolment where it is another agent's, was spent or has ended.
func (s AgentKeys) spend(w *conn, by Caller, k AgentKey, hash chain.Hash) (fingerprint string, err error) {
	var latest sql.NullInt64
	e, err := row(w, func(rows *sql.Rows) (Enrolment, error) { return scanEnrolment(rows, &latest) }, "SELECT "+enrolmentColumns+", "+latestOf("enrolment.company", "'enrolment:' || fingerprint")+" FROM enrolment WHERE hash = ? AND company = ?", hash[:], by.Company.Chain)
	if errors.Is(err, ErrNotFound) {
		return "", ErrBadEnrolment
	}
	if err != nil {
		return "", err
	}
	l, err := w.controlRecord(by.Company, latest)
	if err == nil {
		err = s.db.Tables.checked(by.Company, l.Enrolment(e.Fingerprint, projection.Enrolment{AgentID: e.AgentID, ExpiresAt: chain.FormatTime(e.ExpiresAt), Key: e.key}))
	}
	if err == nil && e.key == "" {
		err = s.checkUnspent(w, by.Company, e)
	}
	if err != nil {
		return "", err
	}
	n, err := w.exec(`UPDATE enrolment SET key = ? WHERE hash = ? AND company = ? AND agent_id = ? AND key IS NULL AND expires_at > ?`,
		k.Thumbprint, hash[:], by.Company.Chain, k.AgentID, by.At.UnixMilli())
	if err == nil && n == 0 {
		err = ErrBadEnrolment
	}
	return e.Fingerprint, err
}

// checkUnspent requires that no key of the agent was enrolled with an enrolment, by the control
// records of the keys: the row may have been changed. A key whose row was taken away is found by
// the replay.
func (s AgentKeys) checkUnspent(w *conn, company *Company, e Enrolment) error {
	var enrolled []sql.NullInt64
	err := w.each(func(rows *sql.Rows) error {
		var id sql.NullInt64
		err := rows.Scan(&id)
		enrolled = append(enrolled, id)
		return err
	}, "SELECT "+aboutSubject("agent_key.company", "'agent-key:' || thumbprint", "", "ASC")+" FROM agent_key WHERE company = ? AND agent_id = ?", company.Chain, e.AgentID)
	for _, id := range enrolled {
		if err != nil {
			return err
		}
		var l *projection.Latest
		if l, err = w.controlRecord(company, id); err == nil && l != nil && l.Payload.Enrolment != nil && *l.Payload.Enrolment == e.Fingerprint {
			err = s.db.Tables.checked(company, &projection.Difference{Table: projection.TableEnrolment, Row: e.Fingerprint, Index: l.Index,
				What: fmt.Sprintf("is not spent, and control record %d tells of a key that was enrolled with it", l.Index)})
		}
	}
	return err
}
