package service

import (
	"context"
	"encoding/json"
	"errors"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/store"
	"attestd/store/names"
)

// MaxDepth is how deep a caller's value may nest.
const MaxDepth = 128

// MaxItems is how many attestations are appended at once at most.
const MaxItems = 1000

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
}

// Attestations become records of the actions of their companies.
type Attestations struct {
	Store       *store.Store
	Agents      *Agents
	Delegations *Delegations
	Keys        *AgentKeys
}

// Append appends records to the caller's chain, all or none. All that can be the caller's fault is
// refused here, before the log sees it; an error that concerns one of the items is in a
// *chain.DraftError with its place among them.
//
// What stands under its key already is answered with its record, whatever has changed since: the
// token of a delegation has expired, or an agent is disabled. The log looks each key up once more,
// in the transaction that would append.
func (a *Attestations) Append(ctx context.Context, by store.Caller, items ...Attestation) ([]chain.Appended, error) {
	all := make([]chain.Appended, len(items))
	drafts := make([]chain.Draft, 0, len(items))
	places := make([]int, 0, len(items)) // of the drafts among the items
	var sessions []names.Session         // which the items name
	for i := range items {
		draft, said, err := a.draft(ctx, by, &items[i])
		if err != nil && len(draft.Keys) > 0 {
			var there *chain.Record
			if there, err = a.orRecorded(ctx, by, &draft, err); err == nil {
				all[i] = chain.Appended{Record: *there, Replayed: true}
				continue
			}
		}
		if err != nil {
			return nil, &chain.DraftError{Draft: i, Err: err}
		}
		if said == nil || said.Session == "" {
			if of, ok := names.Named(items[i].AgentID, items[i].ActionType, items[i].Payload); ok {
				draft.Series = of.Series()
				sessions = append(sessions, of)
			}
		}
		drafts, places = append(drafts, draft), append(places, i)
	}
	if len(drafts) == 0 {
		return all, nil
	}
	appended, err := a.Store.AppendAll(ctx, drafts)
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
// the keys under which the record may stand already.
func (a *Attestations) draft(ctx context.Context, by store.Caller, item *Attestation) (d chain.Draft, said *statement.Statement, err error) {
	d.Chain = by.Company.Chain
	if err := mayActAs(by, item.AgentID); err != nil {
		return d, nil, at(err, "/agentId")
	}
	var action string // the hash of it
	if d.Payload, d.Canonical, action, err = recordPayload(by.Company.ID, item); err != nil {
		return d, nil, err
	}
	if item.Statement != "" {
		if said, err = a.checkStatement(ctx, by, item, action); err != nil {
			return d, said, at(err, "/statement")
		}
	}
	if item.Key != "" || said != nil {
		d.Replays = delegatedBy(by, item.Delegation)
	}
	if item.Key != "" {
		d.Keys = append(d.Keys, chain.Key{Name: names.Key(item.Key), Request: requestOf(&d, by, item.Delegation)})
	}
	if said != nil {
		d.Keys = append(d.Keys, names.Statement(said)...)
	}
	if err := a.Agents.MayAct(ctx, by, item.AgentID); err != nil {
		return d, said, at(err, "/agentId")
	}
	if said == nil {
		if err := a.Keys.mayDoWithout(ctx, by, item.AgentID); err != nil {
			return d, said, at(err, "/statement")
		}
	}
	if d.Delegation, err = a.Delegations.verify(ctx, by, item.AgentID, item.Delegation); err != nil {
		return d, said, at(err, "/delegation")
	}
	if err := coversDelegation(said, d.Delegation); err != nil {
		return d, said, at(err, "/statement")
	}
	if said != nil && said.Session != "" {
		err = a.Keys.noteSession(ctx, by, item.AgentID, said)
	}
	return d, said, err
}

// recordPayload builds the payload object of a record: as it is stored, with the caller's value
// byte for byte, and canonical. The canonical one needs no second pass over the whole: its members
// stand in their sorted order. action is the action_hash of a statement; "" where there is none.
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
