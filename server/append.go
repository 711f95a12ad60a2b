package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"attestd/chain"
	"attestd/store"
)

// attestation is what becomes a record.
type attestation struct {
	_          struct{}        `missing:"Missing or invalid fields: agentId, actionType, payload are required"`
	AgentID    string          `json:"agentId" must:"name"`
	ActionType string          `json:"actionType" must:"name"`
	Payload    json.RawMessage `json:"payload" must:"present"`
	Delegation string          `json:"delegation" must:"delegation"`
	// "": it is appended whatever was before
	Key string `json:"idempotencyKey" must:"key"`
}

// itemError is an error that concerns one of several attestations.
type itemError struct {
	item int
	err  error
}

func (e *itemError) Error() string { return e.err.Error() }
func (e *itemError) Unwrap() error { return e.err }

// append appends records to the caller's chain, all or none. All that can be the caller's fault is
// refused here, before the log sees it; an error that concerns one of the items is an itemError.
//
// What stands under its key already is answered with its record, whatever has changed since: the
// token of a delegation has expired, or an agent is disabled. The log looks each key up once more,
// in the transaction that would append.
func (s *Server) append(ctx context.Context, by store.Caller, items ...attestation) ([]chain.Appended, error) {
	all := make([]chain.Appended, len(items))
	drafts := make([]chain.Draft, 0, len(items))
	places := make([]int, 0, len(items)) // of the drafts among the items
	for i := range items {
		draft, err := s.draft(ctx, by, &items[i])
		if err != nil && draft.Key != nil {
			var there *chain.Record
			if there, err = s.orRecorded(ctx, by, draft.Key, err); err == nil {
				all[i] = chain.Appended{Record: *there, Replayed: true}
				continue
			}
		}
		if err != nil {
			return nil, &itemError{i, err}
		}
		drafts, places = append(drafts, draft), append(places, i)
	}
	if len(drafts) == 0 {
		return all, nil
	}
	appended, err := s.Store.AppendAll(ctx, drafts)
	if refused := (*chain.DraftError)(nil); errors.As(err, &refused) {
		return nil, &itemError{places[refused.Draft], refused.Err}
	}
	if err != nil {
		return nil, err
	}
	for i := range appended {
		all[places[i]] = appended[i]
	}
	return all, nil
}

// draft makes of an attestation what the log takes. With an error it has the key, where that could
// be made.
func (s *Server) draft(ctx context.Context, by store.Caller, a *attestation) (d chain.Draft, err error) {
	d.Chain = by.Company.Chain
	if d.Payload, d.Canonical, err = recordPayload(a.AgentID, by.Company.ID, a.ActionType, a.Payload); err != nil {
		return d, err
	}
	if a.Key != "" {
		d.Key = &chain.Key{Name: keyName(a.Key), Request: requestOf(&d, a.Delegation)}
	}
	if err := s.mayAct(ctx, by, a.AgentID); err != nil {
		return d, at(err, "/agentId")
	}
	d.Delegation, err = s.delegation(ctx, by, a.Delegation)
	return d, at(err, "/delegation")
}

// keyName is what a key is kept by: its first half is the key's own beginning, its second that of
// the key's SHA-256. Keys that begin with a time, as those of our clients do, so stand beside one
// another on disk, and a commit that keeps many of them writes few pages.
func keyName(key string) (name chain.Hash) {
	copy(name[:16], key)
	sum := sha256.Sum256([]byte(key))
	copy(name[16:], sum[:16])
	return name
}

// derivedKey is the key of an append that the server itself derives from what a credential has
// sent. No Idempotency-Key can be one, for it begins with a control character, nor can another
// credential have it derived: whoever foretells what will be sent cannot take its key beforehand.
func derivedKey(by store.Caller, key string) string {
	if key == "" {
		return ""
	}
	return "\x00" + by.Credential + "\x00" + key
}

// requestOf is what a key is bound to: all that POST /v1/attest is asked for. An item of a batch is
// bound to the same, so that what was tried alone can be sent again with others.
func requestOf(d *chain.Draft, delegation string) (request chain.Hash) {
	h := sha256.New()
	h.Write([]byte("POST /v1/attest\n"))
	h.Write(d.Canonical)
	h.Write([]byte("\n" + delegation)) // the canonical form has no line feed
	h.Sum(request[:0])
	return request
}

// orRecorded returns the record that stands under a key; refused where there is none.
func (s *Server) orRecorded(ctx context.Context, by store.Caller, key *chain.Key, refused error) (*chain.Record, error) {
	record, err := s.Store.Recorded(ctx, by, key)
	if errors.Is(err, store.ErrNotFound) {
		err = refused
	}
	return record, err
}
