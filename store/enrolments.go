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
	"attestd/store/db"
	"attestd/store/projection"
)

// Enrolment is a token with which an agent enrols one key.
type Enrolment struct {
	AgentID     string
	Fingerprint string
	Label       *string
	CreatedAt   string
	ExpiresAt   time.Time

	id, company int64
	hash        []byte // SHA-256 of the token
	key         string // that was enrolled with it; "" for none yet
}

var enrolments = right[Enrolment, projection.Enrolment]{
	table: projection.TableEnrolment, subject: "enrolment:", title: "fingerprint", order: "id",
	columns: func(e *Enrolment) []column {
		return []column{
			rowID(&e.id), plain("company", &e.company), plain("hash", &e.hash),
			plain("fingerprint", &e.Fingerprint).as("fingerprint"),
			plain("agent_id", &e.AgentID).as("agentId"),
			nullable("label", &e.Label).as("label"),
			plain("created_at", &e.CreatedAt),
			end("expires_at", &e.ExpiresAt).as("expiresAt"),
			optional("key", &e.key),
		}
	},
	row: func(e *Enrolment) projection.Enrolment {
		return projection.Enrolment{AgentID: e.AgentID, ExpiresAt: formatEnd(e.ExpiresAt), Key: e.key}
	},
	wrong: func(_ *base, _ *Company, e *Enrolment) string {
		if !isHashOf(e.hash, e.Fingerprint) {
			return "its hash is of another token"
		}
		return ""
	},
}

// EnrolmentPrefix begins every enrolment token.
const EnrolmentPrefix = "enr_"

// CreateEnrolment makes a token with which an agent enrols one key until a time; only its hash is
// stored. ErrNotFound and ErrDisabled of the agent.
func (s AgentKeys) CreateEnrolment(ctx context.Context, by Caller, agentID string, label *string, expires time.Time) (token string, err error) {
	token = keys.NewSecret(strings.TrimSuffix(EnrolmentPrefix, "_"))
	hash := keys.HashSecret(token)
	e := Enrolment{AgentID: agentID, Fingerprint: keys.Fingerprint(hash), Label: label, CreatedAt: chain.FormatTime(by.At), ExpiresAt: expires, company: by.Company.Chain, hash: hash[:]}
	err = s.db.controlled(ctx, by, func(w *db.Conn) ([]controlEvent, error) {
		if err := checkEnabled(w, by.Company.Chain, agentID); err != nil {
			return nil, err
		}
		_, err := enrolments.insert(w, &e, "")
		return []controlEvent{enrolments.created(EnrolmentCreated, &e, nil)}, err
	})
	if err != nil {
		return "", fmt.Errorf("create an enrolment of agent %q: %w", agentID, err)
	}
	return token, nil
}

// Enrolment finds who presents the token with this hash: a caller of its company with the role
// Enrolling, and its agent. ErrNotFound where there is none, it was spent or has ended.
func (s AgentKeys) Enrolment(ctx context.Context, hash [32]byte, now time.Time) (Caller, error) {
	var e Enrolment
	err := s.db.Read(ctx, func(r *db.Conn) (err error) {
		e, err = db.Row(r, enrolments.scan, "SELECT "+enrolments.list("enrolment")+" FROM enrolment WHERE hash = ?", hash[:])
		return err
	})
	if err == nil && (e.key != "" || !now.Before(e.ExpiresAt) || e.Fingerprint != keys.Fingerprint(hash)) {
		err = db.ErrNotFound
	}
	if err != nil {
		return Caller{}, fmt.Errorf("enrolment: %w", err)
	}
	company, err := s.companies.now(ctx, e.company)
	if err != nil {
		return Caller{}, err
	}
	return Caller{Company: company, Credential: e.Fingerprint, Role: Enrolling, Agent: e.AgentID, Expires: e.ExpiresAt, At: now}, nil
}

// spend spends an enrolment on a key, after a comparison with the control record that made it.
// ErrBadEnrolment where it is another agent's, was spent or has ended.
func (s AgentKeys) spend(w *db.Conn, by Caller, k AgentKey, hash chain.Hash) (fingerprint string, err error) {
	found, err := enrolments.knownOne(w, "hash = ? AND company = ?", hash[:], by.Company.Chain)
	if errors.Is(err, db.ErrNotFound) {
		return "", ErrBadEnrolment
	}
	if err != nil {
		return "", err
	}
	e := found.row
	l, err := controlRecord(w, by.Company, found.latest)
	if err == nil {
		err = s.db.checked(by.Company, l.Enrolment(e.Fingerprint, enrolments.row(&e)))
	}
	if err == nil && e.key == "" {
		err = s.checkUnspent(w, by.Company, e)
	}
	if err != nil {
		return "", err
	}
	n, err := w.Exec(`UPDATE enrolment SET key = ? WHERE hash = ? AND company = ? AND agent_id = ? AND key IS NULL AND expires_at > ?`,
		k.Thumbprint, hash[:], by.Company.Chain, k.AgentID, by.At.UnixMilli())
	if err == nil && n == 0 {
		err = ErrBadEnrolment
	}
	return e.Fingerprint, err
}

// checkUnspent requires that no key of the agent was enrolled with an enrolment. A key whose row
// was deleted is found by the replay.
func (s AgentKeys) checkUnspent(w *db.Conn, company *Company, e Enrolment) error {
	return s.db.checkUnspent(w, company, projection.TableEnrolment, e.Fingerprint, "key",
		func(l *projection.Latest) *string { return l.Payload.Enrolment },
		"SELECT "+aboutSubject("agent_key.company", agentKeys.subjectSQL("agent_key"), "", "ASC")+" FROM agent_key WHERE company = ? AND agent_id = ?", company.Chain, e.AgentID)
}

// checkUnspent requires of the row of a secret that counts once that nothing was enrolled with it,
// by the control records whose IDs a query selects: the row may have been changed. with returns the
// fingerprint of the secret in such a record, or nil, and what names the thing enrolled.
func (s *base) checkUnspent(w *db.Conn, company *Company, table, fingerprint, what string, with func(*projection.Latest) *string, query string, args ...any) error {
	var enrolled []sql.NullInt64
	err := w.Each(func(rows *sql.Rows) error {
		var id sql.NullInt64
		err := rows.Scan(&id)
		enrolled = append(enrolled, id)
		return err
	}, query, args...)
	for _, id := range enrolled {
		if err != nil {
			return err
		}
		var l *projection.Latest
		if l, err = controlRecord(w, company, id); err != nil || l == nil {
			continue
		}
		if of := with(l); of != nil && *of == fingerprint {
			err = s.checked(company, &projection.Difference{Table: table, Row: fingerprint, Index: l.Index,
				What: fmt.Sprintf("is not spent, and control record %d tells of a %s that was enrolled with it", l.Index, what)})
		}
	}
	return err
}
