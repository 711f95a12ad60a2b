package service

import (
	"bytes"
	"context"
	"errors"

	"attestd/chain"
	"attestd/store"
)

// derived is an attestation under a key that the service derives from what was sent.
type derived struct {
	Attestation
	// returns the key of one whose own stands for another request's record; nil leaves it out
	other    func() string
	replaced bool // Key is the other one
	place    int  // among what the caller has
}

// maxKeyRounds bounds how often the keys of items are looked up again, because others have taken
// them meanwhile.
const maxKeyRounds = 4

// appendDerived appends the items that are not recorded yet, in one transaction. It calls refuse
// for each item that may not be recorded, with the reason: an item of which refuse returns nil is
// left out, and any other error is returned.
func (a *Attestations) appendDerived(ctx context.Context, by store.Caller, items []derived, refuse func(item *derived, refused error) error) error {
	for rounds := 0; len(items) > 0; {
		attestations := make([]Attestation, len(items))
		for i := range items {
			attestations[i] = items[i].Attestation
		}
		_, err := a.Append(ctx, by, attestations...)
		var item *chain.DraftError
		if !errors.As(err, &item) {
			return err
		}
		var refused *Error
		at := &items[item.Draft]
		switch isRefused := errors.As(item.Err, &refused); {
		case errors.Is(item.Err, chain.ErrKeyReused) && !at.replaced && rounds < maxKeyRounds:
			// All are looked up at once: each failed append costs as much as all items together.
			rounds++
			items, err = a.withFreeKeys(ctx, by, items)
		case !isRefused:
			return err
		case refused.Kind == Forbidden: // it is about the agent, and perhaps about others too
			forbidden := map[string]error{at.AgentID: item.Err}
			if err := a.findForbidden(ctx, by, items, forbidden); err != nil {
				return err
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
			return err
		}
	}
	return nil
}

// withFreeKeys returns the items that are not recorded yet. Those whose keys stand for something
// else, be it for an item before them, have their other keys, or are left out.
func (a *Attestations) withFreeKeys(ctx context.Context, by store.Caller, items []derived) ([]derived, error) {
	free := make([]derived, 0, len(items))
	first := make(map[string]*derived, len(items))
	for i := range items {
		item := &items[i]
		there, err := a.isRecorded(ctx, by, item)
		before := first[item.Key]
		if errors.Is(err, chain.ErrKeyReused) || item.Key != "" && before != nil && !item.equals(before) {
			switch {
			case item.replaced:
				return nil, chain.ErrKeyReused
			case item.other == nil:
				continue
			}
			item.Key, item.replaced = item.other(), true
			there, err = a.isRecorded(ctx, by, item)
		}
		if err != nil {
			return nil, err
		}
		if first[item.Key] = item; !there {
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
		there, err := a.isRecorded(ctx, by, item)
		if err != nil && !errors.Is(err, chain.ErrKeyReused) {
			return nil, err
		}
		if !there {
			if err := refuse(item, refused); err != nil {
				return nil, err
			}
		}
	}
	return rest, nil
}

// isRecorded says whether the very same record stands under the key of an item; with
// chain.ErrKeyReused, another one does.
func (a *Attestations) isRecorded(ctx context.Context, by store.Caller, item *derived) (bool, error) {
	draft, _, _ := a.draft(ctx, by, &item.Attestation) // what it refuses, the append refuses too
	if len(draft.Keys) == 0 {
		return false, nil
	}
	_, err := a.Store.Recorded(ctx, by, &draft.Keys[0], &draft)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
