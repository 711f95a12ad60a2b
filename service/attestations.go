package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/store"
	"attestd/store/names"
)

// Attestation is what becomes a record. Its tags name its members in JSON, and what they must be:
// each door reads them.
type Attestation struct {
	_          struct{}        `missing:"Missing or invalid fields: agentId, actionType, payload are required"`
	AgentID    string          `json:"agentId" must:"name"`
	ActionType string          `json:"actionType" must:"name"`
	Payload    json.RawMessage `json:"payload" must:"present"`
	Delegation string          `json:"delegation" must:"delegation"`
	// what the agent has signed of the action, a compact JWS; "" without
	Statement string `json:"statement" must:"statement"`
	// "": it is appended whatever was before
	Key string `json:"idempotencyKey" must:"key"`
	// whether the record is to hold a decision, and the folder in which the agent works, for that;
	// "" where it is unknown
	Decide bool   `json:"decide" must:"flag"`
	Folder string `json:"folder" must:"given"`

	// of the agent, for that decision; "" without one. Nothing stores it
	Passport string `json:"passport" must:"given"`

	// for a decision; see Calling
	passport     *store.Passport
	unauthorized bool
}

// Attestations become records of the actions of their companies.
type Attestations struct {
	Store       *store.Store
	Agents      *Agents
	Delegations *Delegations
	Keys        *AgentKeys
	Passports   *Passports
	Decisions   *Decisions
}

// Append appends records to the caller's chain, all or none. All that can be the caller's fault is
// refused here, before the log sees it; an error that concerns one of the items is in a
// *chain.DraftError with its place among them.
//
// An item whose key has a record is answered with that record, whatever has changed since: the
// token of a delegation has expired, or an agent is disabled. The log looks each key up once more,
// in the transaction that would append.
//
// A request is decided by the policies that are in force at its place in the log: if these change
// meanwhile, it is decided again.
func (a *Attestations) Append(ctx context.Context, by store.Caller, items ...Attestation) ([]chain.Appended, error) {
	for range maxDecided {
		all, err := a.append(ctx, by, items)
		switch {
		case errors.Is(err, chain.ErrRevision):
			a.Store.Cedar.Forget(by)
		case !errors.Is(err, chain.ErrRecorded): // which the next attempt finds
			return all, err
		}
	}
	return nil, fmt.Errorf("%w: the policies of the company change too often", store.ErrUnavailable)
}

// maxDecided bounds how often a request is decided, because the policies have changed meanwhile.
const maxDecided = 100

func (a *Attestations) append(ctx context.Context, by store.Caller, items []Attestation) ([]chain.Appended, error) {
	all := make([]chain.Appended, len(items))
	drafts := make([]chain.Draft, 0, len(items))
	places := make([]int, 0, len(items)) // of the drafts among the items
	var sessions []names.Session         // which the items name
	asking := asking{asked: make([]*store.Asked, 0, len(items)), made: make([]*decision.Decision, 0, len(items))}
	for i := range items {
		draft, stmt, err := a.draft(ctx, by, &items[i])
		var made *decision.Decision
		var asked *store.Asked
		if err == nil && draft.Decided {
			made, asked, err = a.decide(ctx, by, &items[i], &draft, stmt)
		}
		if err == nil && made != nil && asked == nil {
			err = hold(&draft, made)
		}
		if err != nil && len(draft.Keys) > 0 {
			var existing *chain.Record
			if existing, err = a.orRecorded(ctx, by, &draft, err); err == nil {
				all[i] = chain.Appended{Record: *existing, Replayed: true}
				continue
			}
		}
		if err != nil {
			return nil, &chain.DraftError{Draft: i, Err: err}
		}
		if stmt == nil || stmt.Session == "" {
			if of, ok := names.Named(items[i].AgentID, items[i].ActionType, items[i].Payload); ok {
				draft.Series = of.Series()
				sessions = append(sessions, of)
			}
		}
		if len(draft.Keys) > 0 && asked != nil {
			existing, err := a.orRecorded(ctx, by, &draft, nil)
			if err != nil {
				return nil, &chain.DraftError{Draft: i, Err: err}
			}
			if existing != nil {
				all[i] = chain.Appended{Record: *existing, Replayed: true}
				continue
			}
		}
		drafts, places = append(drafts, draft), append(places, i)
		asking.add(asked, made)
	}
	if len(drafts) == 0 {
		return all, nil
	}
	appended, err := a.appendDrafts(ctx, by, drafts, &asking)
	if err != nil {
		if refused := (*chain.DraftError)(nil); errors.As(err, &refused) {
			refused.Draft = places[refused.Draft]
			refused.Err = a.conflictError(ctx, by, refused.Err)
		}
		return nil, err
	}
	a.recordSessions(ctx, by, sessions)
	for i := range appended {
		all[places[i]] = appended[i]
	}
	return all, nil
}

// draft makes of an attestation what the log takes, and its statement, or nil. With an error it has
// the keys under which the record may exist already. One that is Decided has no decision yet.
func (a *Attestations) draft(ctx context.Context, by store.Caller, item *Attestation) (d chain.Draft, stmt *statement.Statement, err error) {
	d.Chain = by.Company.Chain
	if err := mayActAs(by, item.AgentID); err != nil {
		return d, nil, at(err, "/agentId")
	}
	var action string // the hash of it
	if item.Passport != "" && !item.Decide {
		return d, nil, &Error{Kind: Invalid, Message: "Invalid field: passport goes with decide, which asks for a decision by it", Pointer: "/passport"}
	}
	if d.Payload, d.Canonical, action, err = recordPayload(by.Company.ID, item); err != nil {
		return d, nil, err
	}
	if item.Statement != "" {
		if stmt, err = a.checkStatement(ctx, by, item, action); err != nil {
			return d, stmt, at(err, "/statement")
		}
	}
	if item.Key != "" || stmt != nil {
		d.Replays = delegatedBy(by, item.Delegation)
	}
	if item.Key != "" {
		d.Keys = append(d.Keys, chain.Key{Name: names.Key(item.Key), Request: requestOf(&d, by, item.Delegation)})
	}
	if stmt != nil {
		d.Keys = append(d.Keys, names.Statement(stmt)...)
	}
	if d.Decided, d.MayBeDecided, err = a.isDecided(ctx, by, item); err != nil {
		return d, stmt, err
	}
	if err := a.Agents.MayAct(ctx, by, item.AgentID); err != nil {
		return d, stmt, at(err, "/agentId")
	}
	if stmt == nil {
		if err := a.Keys.mayDoWithout(ctx, by, item.AgentID); err != nil {
			return d, stmt, at(err, "/statement")
		}
	}
	if d.Delegation, err = a.Delegations.verify(ctx, by, item.AgentID, item.Delegation); err != nil {
		return d, stmt, at(err, "/delegation")
	}
	if err := coversDelegation(stmt, d.Delegation); err != nil {
		return d, stmt, at(err, "/statement")
	}
	if stmt != nil && stmt.Session != "" {
		if err := a.Keys.recordSession(ctx, by, item.AgentID, stmt); err != nil {
			return d, stmt, err
		}
	}
	return d, stmt, nil
}

// isDecided reports whether the record of an item holds a decision: where it is asked for, and that
// of the request of a tool call as soon as the company has a policy, or the caller rights on
// arguments. was reports whether one of an earlier request may: the company may have had a policy.
func (a *Attestations) isDecided(ctx context.Context, by store.Caller, item *Attestation) (is, was bool, err error) {
	if item.Decide || item.ActionType != string(action.ToolRequested) {
		return item.Decide, item.Decide, nil
	}
	if !by.Details.IsZero() {
		return true, true, nil
	}
	set, err := a.Store.Cedar.Set(ctx, by)
	if err != nil {
		return false, false, err
	}
	return len(set.Policies) > 0, set.Revision > 0, nil
}

// decide decides a draft that is Decided. asked is of one that needs an approval, or may use one.
func (a *Attestations) decide(ctx context.Context, by store.Caller, item *Attestation, d *chain.Draft, stmt *statement.Statement) (_ *decision.Decision, asked *store.Asked, err error) {
	c, err := contextOf(by, item, d.Delegation)
	if err != nil {
		return nil, nil, err
	}
	passport, code := item.passport, ""
	if item.unauthorized {
		code = decision.ScopeDenied
	}
	if item.Passport != "" {
		if passport, code, err = a.Passports.presented(ctx, by, item); err != nil {
			return nil, nil, err
		}
	}
	if passport != nil {
		c.Scopes = passport.Scopes
		limited(&c, passport.Details)
	}
	made, ask, err := a.Decisions.Decide(ctx, by, item.AgentID, item.ActionType, item.Payload, c)
	if err != nil {
		return nil, nil, err
	}
	if passport != nil {
		made.Passport = passport.JTI
	}
	if code != "" { // the passport is asked for first
		made.Verdict, made.Code, made.By, made.Errors = decision.Deny, code, nil, nil
	}
	asked, err = a.asked(ctx, by, item, stmt, &made, ask)
	return &made, asked, err
}

// hold puts a decision into a draft.
func hold(d *chain.Draft, made *decision.Decision) error {
	text, err := made.Append(nil)
	if err != nil {
		return err
	}
	if d.Canonical, err = decision.Insert(d.Canonical, text); err != nil {
		return err
	}
	d.Payload = append(append(append(d.Payload[:len(d.Payload)-1], `,"decision":`...), text...), '}')
	d.Revision = made.Revision
	return nil
}

// recordPayload builds the payload object of a record: as it is stored, with the caller's value
// byte for byte, and canonical. The canonical one needs no second pass over the whole: its members
// are in their sorted order. action is the action_hash of a statement; "" where there is none.
func recordPayload(company string, a *Attestation) (stored, canonical []byte, action string, err error) {
	stored = make([]byte, 0, len(a.Payload)+len(a.AgentID)+len(company)+len(a.ActionType)+len(a.Statement)+80)
	stored = jcs.AppendString(append(stored, `{"agentId":`...), a.AgentID)
	stored = jcs.AppendString(append(stored, `,"companyId":`...), company)
	stored = jcs.AppendString(append(stored, `,"actionType":`...), a.ActionType)
	stored = append(append(stored, `,"payload":`...), a.Payload...)

	canonical = make([]byte, 0, cap(stored))
	canonical = jcs.AppendString(append(canonical, `{"actionType":`...), a.ActionType)
	canonical = jcs.AppendString(append(canonical, `,"agentId":`...), a.AgentID)
	canonical = jcs.AppendString(append(canonical, `,"companyId":`...), company)
	canonical, err = jcs.Append(append(canonical, `,"payload":`...), a.Payload, MaxDepth)
	var malformed *strictjson.Error
	if errors.As(err, &malformed) {
		malformed = malformed.Within("/payload")
		return nil, nil, "", &Error{Kind: Invalid, Message: "Malformed " + malformed.Error(), Pointer: malformed.Pointer}
	}
	if a.Statement != "" {
		action = statement.HashCanonical(append(canonical, '}'))
		canonical = jcs.AppendString(append(canonical, `,"statement":`...), a.Statement)
		stored = jcs.AppendString(append(stored, `,"statement":`...), a.Statement)
	}
	return append(stored, '}'), append(canonical, '}'), action, err
}

// derivedKey is the key of an append that the service itself derives from what a credential has
// sent. No Idempotency-Key can be one, for it begins with a control character, nor can another
// credential have it derived: a client that foretells what will be sent cannot use its key first.
func derivedKey(by store.Caller, key string) string {
	if key == "" {
		return ""
	}
	return "\x00" + by.Credential + "\x00" + key
}

// derivedKeyAt is derivedKey for what has a time, in nanoseconds since 1970. Keys of close times
// are close on disk. The other ones have their second control character at another place.
func derivedKeyAt(by store.Caller, unixNano uint64, key string) string {
	const digits = 15 // of 16: names.Key keeps the order of so many
	at := strconv.FormatUint(unixNano>>4, 16)
	return "\x00" + strings.Repeat("0", digits-len(at)) + at + by.Credential + "\x00" + key
}

// requestOf is what the key of a draft is bound to.
func requestOf(d *chain.Draft, by store.Caller, delegation string) chain.Hash {
	if by.Delegation == "" {
		return names.Request(d.Canonical, delegation, "")
	}
	person, _ := delegationOf(by) // verify reads it again
	return names.Request(d.Canonical, delegation, person.Subject)
}

// delegatedBy is the delegation that the record of a request has, whichever token is refused by
// now. Who acts for a person may do so with another token of that person the next time.
func delegatedBy(by store.Caller, token string) (d chain.Delegated) {
	if token == "" && by.Delegation == "" {
		return d
	}
	given, _ := delegationUnverified(by, token) // verify refuses what is none
	d.TokenID = given.TokenID
	if token == "" {
		d.Subject = given.Subject
	}
	return d
}

// orRecorded returns the record of the first of a draft's keys that has one; refused where none is.
func (a *Attestations) orRecorded(ctx context.Context, by store.Caller, d *chain.Draft, refused error) (*chain.Record, error) {
	for i := range d.Keys {
		record, err := a.Store.Retries.Recorded(ctx, by, &d.Keys[i], d)
		if !errors.Is(err, store.ErrNotFound) {
			return record, a.conflictError(ctx, by, err)
		}
	}
	return nil, refused
}

// checkStatement requires that a statement says what its attestation does, by a key of the agent
// that is live. action is the action_hash of the attestation.
func (a *Attestations) checkStatement(ctx context.Context, by store.Caller, item *Attestation, action string) (*statement.Statement, error) {
	stmt, err := statement.Parse(item.Statement)
	if err != nil {
		return nil, statementError(err)
	}
	if err := a.Agents.MayAct(ctx, by, item.AgentID); err != nil {
		return nil, err // its keys do not count while it is disabled
	}
	key, err := a.Keys.live(ctx, by, item.AgentID, stmt.KeyID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &Error{Kind: Forbidden, Code: statement.CodeKeyUnknown,
			Message: "The statement is signed with a key that is no live key of the agent: enrol it (POST /v1/agents/{agentId}/keys), or sign with another"}
	}
	if err != nil {
		return nil, err
	}
	if err := stmt.CheckVersion(key.StatementVersion); err != nil {
		return nil, statementError(err)
	}
	want := statement.Expected{
		Issuer: by.Company.Issuer.AgentID(item.AgentID), Audience: by.Company.Issuer.CompanyID(), Log: by.Company.Actions.Origin, ActionHash: action,
	}
	if d, ok := delegationUnverified(by, item.Delegation); ok {
		want.TokenID, want.DelegationHash = d.TokenID, d.Hash()
	}
	return stmt, statementError(stmt.Check(key.Public, want, by.At))
}

// coversDelegation requires that a statement, or nil, covers the delegation that its record has,
// which is checked by now. checkStatement has compared it with the unchecked token, so that a retry
// is answered after the token has ended.
func coversDelegation(stmt *statement.Statement, canonical []byte) error {
	if stmt == nil || stmt.Version() == 1 {
		return nil
	}
	hash := ""
	if canonical != nil {
		hash = statement.HashCanonical(canonical)
	}
	if stmt.Delegation != hash {
		return &Error{Kind: Invalid, Code: statement.CodeMismatch, Message: "Invalid field: statement delegation is not the SHA-256 of the record's delegation"}
	}
	return nil
}

// statementError is the refusal of a statement.
func statementError(err error) error {
	var refused *statement.Error
	if errors.As(err, &refused) {
		return &Error{Kind: Invalid, Code: refused.Code, Message: "Invalid field: " + refused.Message}
	}
	return err
}

// conflictError is the refusal of what would make an agent say two things in one place, if the
// record that is there has the name indeed.
func (a *Attestations) conflictError(ctx context.Context, by store.Caller, err error) error {
	if !errors.Is(err, chain.ErrUniqueKeyReused) {
		return err
	}
	if err := a.Store.Retries.CheckTaken(ctx, by, err); err != nil {
		return err
	}
	return &Error{Kind: Conflict, Code: statement.CodeReused, Pointer: "/statement",
		Message: "Another statement of this key that is recorded has this jti, or this sid and seq"}
}

// derived is an attestation under a key that the service derives from what was sent.
type derived struct {
	Attestation
	// returns the key of one whose own has another request's record; nil leaves it out
	other    func() string
	replaced bool // Key is the other one
	place    int  // among what the caller has
}

// maxKeyRounds bounds how often the keys of items are looked up again, because others have taken
// them meanwhile.
const maxKeyRounds = 4

// appendDerived appends the items that are not recorded yet, in one transaction. It calls refuse
// for each item that may not be recorded, with the reason: an item of which refuse returns nil is
// left out, and any other error is returned. It returns the records of the others, but for those
// that were recorded before under another key.
func (a *Attestations) appendDerived(ctx context.Context, by store.Caller, items []derived, refuse func(item *derived, refused error) error) ([]chain.Appended, error) {
	for rounds := 0; len(items) > 0; {
		attestations := make([]Attestation, len(items))
		for i := range items {
			attestations[i] = items[i].Attestation
		}
		appended, err := a.Append(ctx, by, attestations...)
		var item *chain.DraftError
		if !errors.As(err, &item) {
			return appended, err
		}
		var refused *Error
		at := &items[item.Draft]
		switch isRefused := errors.As(item.Err, &refused); {
		case errors.Is(item.Err, chain.ErrKeyReused) && !at.replaced && rounds < maxKeyRounds:
			// All are looked up at once: each failed append costs as much as all items together.
			rounds++
			items, err = a.withFreeKeys(ctx, by, items)
		case !isRefused:
			return nil, err
		case refused.Kind == Forbidden: // it is about the agent, and perhaps about others too
			forbidden := map[string]error{at.AgentID: item.Err}
			if err := a.findForbidden(ctx, by, items, forbidden); err != nil {
				return nil, err
			}
			items, err = a.without(ctx, by, items, func(d *derived) error { return forbidden[d.AgentID] }, refuse)
		default:
			items, err = a.without(ctx, by, items, func(d *derived) error {
				if d == at {
					return item.Err
				}
				return nil
			}, refuse)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// withFreeKeys returns the items that are not recorded yet. Those whose keys name something
// else, be it for an item before them, have their other keys, or are left out.
func (a *Attestations) withFreeKeys(ctx context.Context, by store.Caller, items []derived) ([]derived, error) {
	free := make([]derived, 0, len(items))
	first := make(map[string]*derived, len(items))
	for i := range items {
		item := &items[i]
		exists, err := a.isRecorded(ctx, by, item)
		before := first[item.Key]
		if errors.Is(err, chain.ErrKeyReused) || item.Key != "" && before != nil && !item.equals(before) {
			switch {
			case item.replaced:
				return nil, chain.ErrKeyReused
			case item.other == nil:
				continue
			}
			item.Key, item.replaced = item.other(), true
			exists, err = a.isRecorded(ctx, by, item)
		}
		if err != nil {
			return nil, err
		}
		if first[item.Key] = item; !exists {
			free = append(free, *item)
		}
	}
	return free, nil
}

func (d *derived) equals(other *derived) bool {
	return d.AgentID == other.AgentID && d.ActionType == other.ActionType && bytes.Equal(d.Payload, other.Payload)
}

// findForbidden adds the agents of items that may not act, or not without a statement, with the
// reason.
func (a *Attestations) findForbidden(ctx context.Context, by store.Caller, items []derived, forbidden map[string]error) error {
	checked := map[string]bool{}
	for i := range items {
		agent := items[i].AgentID
		if checked[agent] || forbidden[agent] != nil {
			continue
		}
		checked[agent] = true
		err := a.Agents.MayAct(ctx, by, agent)
		if err == nil {
			err = a.Keys.mayDoWithout(ctx, by, agent)
		}
		var refused *Error
		switch {
		case errors.As(err, &refused):
			forbidden[agent] = err
		case err != nil:
			return err
		}
	}
	return nil
}

// without returns the items that are not refused, and calls refuse for those that are and are not
// recorded yet: what was recorded before it was forbidden stays so.
func (a *Attestations) without(ctx context.Context, by store.Caller, items []derived, reason func(*derived) error, refuse func(*derived, error) error) (rest []derived, err error) {
	rest = make([]derived, 0, len(items))
	for i := range items {
		item := &items[i]
		refused := reason(item)
		if refused == nil {
			rest = append(rest, *item)
			continue
		}
		exists, err := a.isRecorded(ctx, by, item)
		if err != nil && !errors.Is(err, chain.ErrKeyReused) {
			return nil, err
		}
		if !exists {
			if err := refuse(item, refused); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// isRecorded says whether the key of an item has the very same record; with chain.ErrKeyReused,
// another one does.
func (a *Attestations) isRecorded(ctx context.Context, by store.Caller, item *derived) (bool, error) {
	draft, _, _ := a.draft(ctx, by, &item.Attestation) // what it refuses, the append refuses too
	if len(draft.Keys) == 0 {
		return false, nil
	}
	_, err := a.Store.Retries.Recorded(ctx, by, &draft.Keys[0], &draft)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// recordSessionsTimeout bounds how long the answer to an append waits for its sessions to be
// listed.
const recordSessionsTimeout = 5 * time.Second

// recordSessions makes sure that the sessions of appended records without statements are listed. It
// comes after the append, so that nothing is stored of what was refused. The records are durable
// whatever becomes of this: the next one of its session lists a session that this left out.
func (a *Attestations) recordSessions(ctx context.Context, by store.Caller, sessions []names.Session) {
	if len(sessions) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordSessionsTimeout)
	defer cancel()
	_ = a.Store.Sessions.Note(ctx, by, sessions...)
}
