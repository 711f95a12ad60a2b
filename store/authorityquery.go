package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/keys"
)

// authorityQuery reads the first size records of a company's control log.
type authorityQuery struct {
	*conn
	company *Company
	size    int64

	at      string // the time of the action
	before  int64  // how many control records had been written by then
	begins  string // the time of the first control record
	whole   bool   // whether that is the company's registration
	cannot  []string
	doubted bool
}

func (q *authorityQuery) answer(index int64, set chain.KeySet, jti string) (a Authority, err error) {
	var payload, delegation sql.NullString
	if err := q.one([]any{&q.at, &payload, &delegation}, `SELECT timestamp, payload, delegation FROM record WHERE id = ?`,
		recordID(q.company.Actions.Chain, index)); err != nil {
		return a, err
	}
	var said struct{ AgentID string }
	var acted *cred.Delegation
	if err := json.Unmarshal([]byte(payload.String), &said); err != nil {
		return a, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if delegation.Valid {
		if err := json.Unmarshal([]byte(delegation.String), &acted); err != nil {
			return a, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	if err := q.look(); err != nil {
		return a, err
	}
	a = Authority{Index: index, Timestamp: q.at, Control: AuthorityLog{q.company.Control.ID, q.company.Control.Origin, q.size}, Passports: []PassportEntry{}}
	if a.Agent, err = q.agent(said.AgentID); err != nil {
		return a, err
	}
	if a.Passports, err = q.passports(said.AgentID); err != nil {
		return a, err
	}
	if jti != "" {
		if a.Passport, err = q.passport(jti); err != nil {
			return a, err
		}
	}
	if acted != nil {
		a.Delegation = &DelegationEntry{Chain: acted.Chain, Agents: []AgentAuthority{}}
		for _, id := range acted.Chain {
			agent, own := q.company.Issuer.OwnAgent(id)
			if !own {
				continue
			}
			found, err := q.agent(agent)
			if err != nil {
				return a, err
			}
			a.Delegation.Agents = append(a.Delegation.Agents, found)
		}
	}
	a.SigningKey.KID = keys.Describe(set.At(index).Key).KID
	a.SigningKey.Rotated, err = q.first(subjectSigningKey(a.SigningKey.KID), 0, "")
	a.CannotSay = append(q.cannot,
		"Which credential appended the record: an action does not say.",
		"That the agent held or used a passport: none is presented when an action is recorded.",
		"When SVIDs, delegation tokens and access tokens were issued: they are not recorded, there are too many.")
	if acted != nil {
		a.CannotSay = append(a.CannotSay, "That somebody agreed to the delegation: it says that it was signed, for whom and by whom.")
	}
	return a, err
}

// look finds how much of the control log is of before the action. Its times never run backwards.
func (q *authorityQuery) look() (err error) {
	q.before = int64(sort.Search(int(q.size), func(i int) bool {
		var at string
		if err == nil {
			err = q.one([]any{&at}, `SELECT timestamp FROM record WHERE id = ?`, recordID(q.company.Control.Chain, int64(i)))
		}
		return at > q.at
	}))
	if err == nil && q.size > 0 {
		err = q.one([]any{&q.begins, &q.whole}, `SELECT timestamp, json_extract(payload, '$.actionType') = ? FROM record WHERE id = ?`,
			CompanyRegistered, recordID(q.company.Control.Chain, 0))
	}
	if err == nil && !q.whole {
		q.cannot = append(q.cannot, "What was changed before the control log began: it is younger than the company.")
	}
	return err
}

// controlRecords is the SQL for the records of a control log about a subject, ?1, from ?2 on and
// before ?3.
const controlRecords = ` FROM record WHERE id < 0 AND CASE WHEN json_valid(payload) THEN json_extract(payload, '$.payload.subject') END = ?1 AND id >= ?2 AND id < ?3`

// first returns the first record about a subject from a number on, of one kind of change or, with
// "", of any; nil for none.
func (q *authorityQuery) first(subject string, from int64, action ControlAction) (*ControlEntry, error) {
	return q.entry(controlRecords+` AND ?4 IN ('', json_extract(payload, '$.actionType')) ORDER BY id LIMIT 1`, subject, from, q.size, action)
}

// last returns the last record about a subject of before the action.
func (q *authorityQuery) last(subject string) (*ControlEntry, error) {
	return q.entry(controlRecords+` AND ?4 = '' ORDER BY id DESC LIMIT 1`, subject, 0, q.before, "")
}

func (q *authorityQuery) entry(query, subject string, from, to int64, action ControlAction) (*ControlEntry, error) {
	var id int64
	var e ControlEntry
	number := q.company.Control.Chain
	err := q.one([]any{&id, &e.Timestamp, &e.Action, &e.By}, `SELECT id, timestamp, json_extract(payload, '$.actionType'), json_extract(payload, '$.payload.by')`+query,
		subject, recordID(number, from), recordID(number, to), action)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	e.Index = id & indexMask
	if err == nil && e.Timestamp == q.at && !q.doubted {
		q.doubted = true
		q.cannot = append(q.cannot, "Which came first of the action and a change in the same millisecond: the two logs are ordered by their times alone.")
	}
	return &e, err
}

func (q *authorityQuery) agent(id string) (a AgentAuthority, err error) {
	a = AgentAuthority{AgentID: id, State: "notRegistered"}
	subject := subjectAgent(id)
	if a.Registered, err = q.first(subject, 0, AgentRegistered); err != nil {
		return a, err
	}
	if a.Last, err = q.last(subject); err != nil {
		return a, err
	}
	if a.Next, err = q.first(subject, q.before, ""); err != nil {
		return a, err
	}
	switch {
	case a.Last == nil && !q.whole:
		a.State = "unknown"
	case a.Last == nil:
		q.cannot = append(q.cannot, fmt.Sprintf("Who stands behind the name %q: nobody had registered an agent of that name, and any credential that may write can use it.", id))
	case a.Last.Action == AgentDisabled:
		a.State = "disabled"
	default:
		a.State = "registered"
	}
	return a, nil
}

// passports lists those of an agent that were valid at the time of the action.
func (q *authorityQuery) passports(agent string) (list []PassportEntry, err error) {
	at, err := parseTime(q.at)
	if err != nil {
		return nil, err
	}
	var found []Passport
	err = q.each(func(rows *sql.Rows) error {
		p, err := scanPassport(rows)
		found = append(found, p)
		return err
	}, "SELECT "+passportColumns+` FROM passport WHERE company = ? AND issued_at BETWEEN ? AND ? AND agent_id = ? AND expires_at > ?
		AND (revoked_at IS NULL OR revoked_at > ?) ORDER BY issued_at, id LIMIT ?`,
		q.company.Chain, at.Add(-cred.MaxPassportTTL).Unix(), at.Unix(), agent, at.Unix(), q.at, maxAuthorityPassports+1)
	if err != nil {
		return nil, err
	}
	if len(found) > maxAuthorityPassports {
		found = found[:maxAuthorityPassports]
		q.cannot = append(q.cannot, fmt.Sprintf("Which further passports the agent had: only %d are listed.", maxAuthorityPassports))
	}
	list = []PassportEntry{}
	for _, p := range found {
		e := PassportEntry{JTI: p.JTI, Scopes: p.Scopes, IssuedAt: unixTime(p.IssuedAt), ExpiresAt: unixTime(p.ExpiresAt)}
		if e.Issued, e.Revoked, err = q.course(p.JTI, agent); err != nil {
			return nil, err
		}
		if e.Issued == nil && q.company.complete { // nobody issued it: somebody put it there
			continue
		}
		// what was issued in the rest of the second came later
		if e.Issued == nil || e.Issued.Index < q.before {
			list = append(list, e)
		}
	}
	return list, nil
}

// course finds the issue of a passport and its revocation, which may have come with the disabling
// of its agent.
func (q *authorityQuery) course(jti, agent string) (issued, revoked *ControlEntry, err error) {
	if issued, err = q.first(subjectPassport(jti), 0, PassportIssued); err != nil {
		return nil, nil, err
	}
	if revoked, err = q.first(subjectPassport(jti), 0, PassportRevoked); err != nil || revoked != nil || issued == nil {
		return issued, revoked, err
	}
	revoked, err = q.first(subjectAgent(agent), issued.Index, AgentDisabled)
	return issued, revoked, err
}

func (q *authorityQuery) passport(jti string) (*PassportAuthority, error) {
	var agent string
	var expires int64
	err := q.one([]any{&agent, &expires}, `SELECT agent_id, expires_at FROM passport WHERE company = ? AND jti = ?`, q.company.Chain, jti)
	recorded := err == nil
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	a := &PassportAuthority{JTI: jti, State: "issued"}
	if a.Issued, a.Revoked, err = q.course(jti, agent); err != nil {
		return nil, err
	}
	switch {
	case a.Issued == nil && recorded && !q.whole:
		a.State = "unknown"
	case a.Issued == nil:
		a.State = "neverIssued"
		q.cannot = append(q.cannot, "Who signed a passport that was never issued: whoever holds the company's key can.")
	case a.Issued.Index >= q.before:
		a.State = "issuedLater"
	case a.Revoked != nil && a.Revoked.Index < q.before:
		a.State = "revoked"
	case unixTime(expires) <= q.at:
		a.State = "expired"
	}
	return a, nil
}

func unixTime(seconds int64) string { return chain.FormatTime(time.Unix(seconds, 0)) }
