package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/crypto/keys"
	"attestd/store"
)

// Authority is what the control log says of whether an action was allowed when it happened. It is
// about the time of the action's record; a control record of the same millisecond counts as
// earlier, and CannotSay names it.
type Authority struct {
	Index     int64          `json:"index"`
	Timestamp string         `json:"timestamp"`
	Control   AuthorityLog   `json:"control"`
	Agent     AgentAuthority `json:"agent"`
	// of the agent, that were valid then; at most maxAuthorityPassports
	Passports  []PassportEntry    `json:"passports"`
	Passport   *PassportAuthority `json:"passport,omitempty"`
	Delegation *DelegationEntry   `json:"delegation"`
	Statement  *StatementEntry    `json:"statement,omitempty"` // of the agent; nil without one
	SigningKey KeyAuthority       `json:"signingKey"`
	CannotSay  []string           `json:"cannotSay"`
}

// AuthorityLog is the control log as it was read: its first Size records.
type AuthorityLog struct {
	LogID  string `json:"logId"`
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
}

// ControlEntry is the place of a change in the control log.
type ControlEntry struct {
	Index     int64               `json:"index"`
	Timestamp string              `json:"timestamp"`
	Action    store.ControlAction `json:"actionType"`
	// fingerprint of the credential; nil for the command line and a company's registration
	By *string `json:"by"`
}

// AgentAuthority is what the control log says of an agent: its first registration, the last change
// up to the action, the first after it.
type AgentAuthority struct {
	AgentID    string        `json:"agentId"`
	State      string        `json:"state"` // registered, disabled, notRegistered, or unknown
	Registered *ControlEntry `json:"registered"`
	Last       *ControlEntry `json:"last"`
	Next       *ControlEntry `json:"next"`
}

// PassportEntry is a passport with its places in the control log.
type PassportEntry struct {
	JTI       string        `json:"jti"`
	Scopes    []string      `json:"scopes"`
	IssuedAt  string        `json:"issuedAt"`
	ExpiresAt string        `json:"expiresAt"`
	Issued    *ControlEntry `json:"issued"`
	Revoked   *ControlEntry `json:"revoked"` // whenever it was

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`
}

// PassportAuthority is what the control log says of a passport that was asked for.
type PassportAuthority struct {
	JTI string `json:"jti"`
	// issued, revoked, expired, issuedLater, neverIssued, or unknown
	State   string        `json:"state"`
	Issued  *ControlEntry `json:"issued"`
	Revoked *ControlEntry `json:"revoked"`
}

// DelegationEntry is the delegation of a record, with what is known of the company's own agents in
// it.
type DelegationEntry struct {
	Chain  []string         `json:"delegationChain"`
	Agents []AgentAuthority `json:"agents"`
	// whether the agent of the record is the current actor, the last of the chain; true of a chain
	// of the subject alone, without an actor
	ByActor bool `json:"byActor"`
}

// StatementEntry is the key with which the agent has signed the action.
type StatementEntry struct {
	KID      string        `json:"kid"`
	Enrolled *ControlEntry `json:"enrolled"`
	Revoked  *ControlEntry `json:"revoked"` // whenever it was
}

// KeyAuthority is the key that signed the record, and the change that brought it; nil for a
// company's first.
type KeyAuthority struct {
	KID     string        `json:"kid"`
	Rotated *ControlEntry `json:"rotated"`
}

const maxAuthorityPassports = 100

// places are the indices of all control records that the answer names, ascending: those that bear
// on the action, and those of the passport that was asked for.
func (a *Authority) places() (bearing, ofPassport []int64) {
	entries := []*ControlEntry{a.SigningKey.Rotated}
	agents := []AgentAuthority{a.Agent}
	if a.Delegation != nil {
		agents = append(agents, a.Delegation.Agents...)
	}
	for _, of := range agents {
		entries = append(entries, of.Registered, of.Last, of.Next)
	}
	for _, p := range a.Passports {
		entries = append(entries, p.Issued, p.Revoked)
	}
	if a.Passport != nil {
		ofPassport = placesOf(a.Passport.Issued, a.Passport.Revoked)
	}
	return placesOf(entries...), ofPassport
}

func placesOf(entries ...*ControlEntry) (indices []int64) {
	for _, e := range entries {
		if e != nil {
			indices = append(indices, e.Index)
		}
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}

// authorityQuery asks the first size records of a company's control log about an action.
type authorityQuery struct {
	view    *store.View
	company *store.Company
	size    int64

	at               string // the time of the action
	before           int64  // how many control records had been written by then
	complete         bool   // whether the log begins with the company's registration
	cannot           []string
	sameTimeReported bool
}

// answer answers for an action that is there; jti is a passport to ask for as well, "" for none.
func (q *authorityQuery) answer(ctx context.Context, record *chain.Record, jti string) (a Authority, err error) {
	var stmt struct{ AgentID string }
	var acted *cred.Delegation
	err = json.Unmarshal(record.Payload, &stmt)
	if err == nil && record.Delegation != nil {
		err = json.Unmarshal(record.Delegation, &acted)
	}
	if err != nil {
		return a, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	set, err := q.view.KeySet(ctx, q.company.Actions.Chain)
	if err != nil {
		return a, err
	}
	q.at = record.Timestamp
	if err := q.divide(ctx); err != nil {
		return a, err
	}
	a = Authority{Index: record.Index, Timestamp: q.at, Control: AuthorityLog{q.company.Control.ID, q.company.Control.Origin, q.size}}
	if a.Agent, err = q.agent(ctx, stmt.AgentID); err != nil {
		return a, err
	}
	if a.Passports, err = q.passports(ctx, stmt.AgentID); err != nil {
		return a, err
	}
	if jti != "" {
		if a.Passport, err = q.passport(ctx, jti); err != nil {
			return a, err
		}
	}
	if acted != nil {
		a.Delegation = &DelegationEntry{Chain: acted.Chain, Agents: []AgentAuthority{}, ByActor: true}
		if len(acted.Chain) > 1 {
			actor, own := q.company.Issuer.OwnAgent(acted.Chain[len(acted.Chain)-1])
			a.Delegation.ByActor = own && actor == stmt.AgentID
		}
		for _, id := range acted.Chain {
			agent, own := q.company.Issuer.OwnAgent(id)
			if !own {
				continue
			}
			found, err := q.agent(ctx, agent)
			if err != nil {
				return a, err
			}
			a.Delegation.Agents = append(a.Delegation.Agents, found)
		}
	}
	a.SigningKey.KID = keys.Describe(set.At(record.Index).Key).KID
	if a.SigningKey.Rotated, err = q.first(ctx, store.AboutSigningKey(a.SigningKey.KID), 0, ""); err != nil {
		return a, err
	}
	if a.Statement, err = q.statement(ctx, record); err != nil {
		return a, err
	}
	unknownSigner := "Which credential appended the record: an action does not say."
	if a.Statement != nil {
		unknownSigner = "That the agent alone holds the key that signed the action: whoever enrolled the key may hold it, and only who knows the agent's key can tell."
	}
	a.CannotSay = append(q.cannot, unknownSigner,
		"That the agent held or used a passport: none is presented when an action is recorded.",
		"When SVIDs, delegation tokens and access tokens were issued: they are not recorded, there are too many.")
	if acted != nil {
		a.CannotSay = append(a.CannotSay, "That somebody agreed to the delegation: it says that it was signed, for whom and by whom.")
		if !a.Delegation.ByActor {
			a.CannotSay = append(a.CannotSay, fmt.Sprintf("That the agent could use the delegation: its current actor is %q, and the record is of %q.", acted.Chain[len(acted.Chain)-1], stmt.AgentID))
		}
	}
	return a, err
}

// statement finds the key that signed an action; nil where none has.
func (q *authorityQuery) statement(ctx context.Context, record *chain.Record) (*StatementEntry, error) {
	stmt, err := statementOf(record)
	if err != nil || stmt == nil {
		return nil, err
	}
	e := &StatementEntry{KID: stmt.KeyID}
	if e.Enrolled, err = q.first(ctx, store.AboutAgentKey(stmt.KeyID), 0, store.AgentKeyEnrolled); err == nil {
		e.Revoked, err = q.first(ctx, store.AboutAgentKey(stmt.KeyID), 0, store.AgentKeyRevoked)
	}
	return e, err
}

// divide finds how much of the control log is older than the action. Its times never run backwards.
func (q *authorityQuery) divide(ctx context.Context) error {
	at, err := time.Parse(time.RFC3339, q.at)
	if err != nil {
		return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	q.before, err = q.view.SizeAt(ctx, q.company.Control.Chain, q.size, chain.FormatTime(at.Add(time.Millisecond)))
	if err == nil && q.size > 0 {
		q.complete, err = q.view.BeginsWithRegistration(ctx, q.company)
	}
	if err == nil && !q.complete {
		q.cannot = append(q.cannot, "What was changed before the control log began: it is younger than the company.")
	}
	return err
}

// first returns the first record about a subject from an index on, of one kind of change or, with
// "", of any; nil for none.
func (q *authorityQuery) first(ctx context.Context, subject string, from int64, action store.ControlAction) (*ControlEntry, error) {
	return q.entry(ctx, store.ControlQuery{Subject: subject, From: from, To: q.size, Action: action})
}

// last returns the last record about a subject that is older than the action.
func (q *authorityQuery) last(ctx context.Context, subject string) (*ControlEntry, error) {
	return q.entry(ctx, store.ControlQuery{Subject: subject, To: q.before, Last: true})
}

func (q *authorityQuery) entry(ctx context.Context, query store.ControlQuery) (*ControlEntry, error) {
	found, err := q.view.ControlEntry(ctx, q.company, query)
	if err != nil || found == nil {
		return nil, err
	}
	if found.Timestamp == q.at && !q.sameTimeReported {
		q.sameTimeReported = true
		q.cannot = append(q.cannot, "Which came first of the action and a change in the same millisecond: the two logs are ordered by their times alone.")
	}
	e := ControlEntry(*found)
	return &e, nil
}

func (q *authorityQuery) agent(ctx context.Context, id string) (a AgentAuthority, err error) {
	a = AgentAuthority{AgentID: id, State: "notRegistered"}
	subject := store.AboutAgent(id)
	if a.Registered, err = q.first(ctx, subject, 0, store.AgentRegistered); err != nil {
		return a, err
	}
	if a.Last, err = q.last(ctx, subject); err != nil {
		return a, err
	}
	if a.Next, err = q.first(ctx, subject, q.before, ""); err != nil {
		return a, err
	}
	switch {
	case a.Last == nil && !q.complete:
		a.State = "unknown"
	case a.Last == nil:
		q.cannot = append(q.cannot, fmt.Sprintf("Who stands behind the name %q: nobody had registered an agent of that name, and any credential that may write can use it.", id))
	case a.Last.Action == store.AgentDisabled:
		a.State = "disabled"
	default:
		a.State = "registered"
	}
	return a, nil
}

// passports lists those of an agent that were valid at the time of the action.
func (q *authorityQuery) passports(ctx context.Context, agent string) ([]PassportEntry, error) {
	at, err := time.Parse(time.RFC3339, q.at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrCorrupt, err)
	}
	found, err := q.view.PassportsAt(ctx, q.company, agent, at, maxAuthorityPassports+1)
	if err != nil {
		return nil, err
	}
	if len(found) > maxAuthorityPassports {
		found = found[:maxAuthorityPassports]
		q.cannot = append(q.cannot, fmt.Sprintf("Which further passports the agent had: only %d are listed.", maxAuthorityPassports))
	}
	list := []PassportEntry{}
	for _, p := range found {
		e := PassportEntry{JTI: p.JTI, Scopes: p.Scopes, IssuedAt: unixTime(p.IssuedAt), ExpiresAt: unixTime(p.ExpiresAt), AuthorizationDetails: p.Details}
		if e.Issued, e.Revoked, err = q.issueAndRevocation(ctx, p.JTI, agent); err != nil {
			return nil, err
		}
		if e.Issued == nil && q.company.Complete() { // not issued, but written into the table
			continue
		}
		// what was issued in the rest of the second came later
		if e.Issued == nil || e.Issued.Index < q.before {
			list = append(list, e)
		}
	}
	return list, nil
}

// issueAndRevocation finds the issue of a passport and its revocation, which may have come with the
// disabling of its agent.
func (q *authorityQuery) issueAndRevocation(ctx context.Context, jti, agent string) (issued, revoked *ControlEntry, err error) {
	subject := store.AboutPassport(jti)
	if issued, err = q.first(ctx, subject, 0, store.PassportIssued); err != nil {
		return nil, nil, err
	}
	if revoked, err = q.first(ctx, subject, 0, store.PassportRevoked); err != nil || revoked != nil || issued == nil {
		return issued, revoked, err
	}
	revoked, err = q.first(ctx, store.AboutAgent(agent), issued.Index, store.AgentDisabled)
	return issued, revoked, err
}

func (q *authorityQuery) passport(ctx context.Context, jti string) (*PassportAuthority, error) {
	p, err := q.view.StoredPassport(ctx, q.company, jti)
	recorded := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	a := &PassportAuthority{JTI: jti, State: "issued"}
	if a.Issued, a.Revoked, err = q.issueAndRevocation(ctx, jti, p.AgentID); err != nil {
		return nil, err
	}
	switch {
	case a.Issued == nil && recorded && !q.complete:
		a.State = "unknown"
	case a.Issued == nil:
		a.State = "neverIssued"
		q.cannot = append(q.cannot, "Who signed a passport that was never issued: whoever holds the company's key can.")
	case a.Issued.Index >= q.before:
		a.State = "issuedLater"
	case a.Revoked != nil && a.Revoked.Index < q.before:
		a.State = "revoked"
	case unixTime(p.ExpiresAt) <= q.at:
		a.State = "expired"
	}
	return a, nil
}
