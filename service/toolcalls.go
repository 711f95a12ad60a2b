package service

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/store"
	"attestd/store/names"
)

// Unrecorded returns those of late events of tool calls of which nothing is recorded, each once. It
// stops at one more than most, so that what a limit will refuse reads no more keys than that.
func (a *Attestations) Unrecorded(ctx context.Context, by store.Caller, agent string, events []action.Event, most int) (missing []action.Event, err error) {
	if err := mayActAs(by, agent); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(events))
	for _, e := range events {
		key := derivedKey(by, e.Key(agent, nil))
		if seen[key] {
			continue
		}
		seen[key] = true
		if key != "" {
			_, err := a.Store.Retries.RecordedUnder(ctx, by, names.Key(key), func(r *chain.Record) bool { return isOf(r, agent, e) })
			if err == nil {
				continue
			}
			if !errors.Is(err, store.ErrNotFound) {
				return nil, err
			}
		}
		if missing = append(missing, e); len(missing) > most {
			break
		}
	}
	return missing, nil
}

// isOf reports whether a record is one of an agent's event, be it in more detail, or another
// outcome of its call.
func isOf(r *chain.Record, agent string, e action.Event) bool {
	var has struct {
		AgentID, ActionType string
		Payload             json.RawMessage
	}
	return json.Unmarshal(r.Payload, &has) == nil && has.AgentID == agent && e.IsOf(has.ActionType, has.Payload)
}

// FollowSubagents returns the events of a report with the outcomes of the calls that have launched
// the subagents which end: the agent reports the end of a subagent without its call, and perhaps
// before the launch.
func (a *Attestations) FollowSubagents(ctx context.Context, by store.Caller, agent string, events []action.Event) ([]action.Event, error) {
	for _, e := range events {
		switch {
		case e.Type == action.SubagentEnded && e.SubagentID != "":
			launch, err := a.recordOf(ctx, by, agent, e.Launch())
			if err != nil {
				return nil, err
			}
			if launch == nil {
				continue
			}
			call := e.Launch()
			call.Tool, call.CallID, call.AgentType = launch.Tool, launch.CallID, launch.AgentType
			outcome := call.EndedBy(e.Output)
			existing, err := a.recordOf(ctx, by, agent, outcome)
			if err != nil {
				return nil, err
			}
			if existing == nil { // else the subagent went on, and has ended again
				events = append(events, outcome)
			}
		case e.Type == action.ToolPending && e.SubagentID != "":
			stop, err := a.recordOf(ctx, by, agent, e.Stop())
			if err != nil {
				return nil, err
			}
			if stop != nil {
				events = append(events, e.EndedBy(nil))
			}
		}
	}
	return events, nil
}

// recordedCall has the members of a record of a call that name the call.
type recordedCall struct{ Tool, CallID, AgentType string }

// recordOf returns what the record under the key of an agent's event says; nil where there is none.
func (a *Attestations) recordOf(ctx context.Context, by store.Caller, agent string, e action.Event) (*recordedCall, error) {
	key := derivedKey(by, e.Key(agent, nil))
	if key == "" {
		return nil, nil
	}
	r, err := a.Store.Retries.RecordedUnder(ctx, by, names.Key(key), func(r *chain.Record) bool { return isOf(r, agent, e) })
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var has struct{ Payload recordedCall }
	if r.IsPruned() || json.Unmarshal(r.Payload, &has) != nil {
		return nil, nil
	}
	return &has.Payload, nil
}

// sameEnd is how much later the end of a session that is reported again, with nothing in between,
// is another one: the session was resumed, and nothing was done in it.
const sameEnd = time.Minute

// maxSameEnds bounds the ends that are read to number another one.
const maxSameEnds = 8

// NumberEnds says of each end of a session which one it is, by what was recorded of the session
// before. An agent reports each end of a session that is resumed with the same event, and one end
// may be reported twice.
func (a *Attestations) NumberEnds(ctx context.Context, by store.Caller, agent string, events []action.Event) error {
	for i := range events {
		e := &events[i]
		if e.Type != action.SessionEnded {
			continue
		}
		record := action.Policy{}.Record(agent, *e)
		of, ok := names.Named(agent, record.ActionType, record.Payload)
		if !ok {
			continue
		}
		var err error
		if e.End, err = a.placeOfEnd(ctx, by, of); err != nil {
			return err
		}
	}
	return nil
}

// placeOfEnd returns one more than the index of the last record of a session that is not an end of
// this minute; 0 where there is none.
func (a *Attestations) placeOfEnd(ctx context.Context, by store.Caller, of names.Session) (int, error) {
	series, last := of.Series(), int64(math.MaxInt64)
	for range maxSameEnds {
		ends, err := a.Store.View.PlaceEnds(ctx, by, series.At(0), series.At(last))
		if errors.Is(err, store.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		index, ok := series.Number(ends[1].Name)
		if !ok {
			return 0, nil // its first half alone is that of the session
		}
		r, err := readContent(ctx, &a.Store.View, by, index)
		if err != nil {
			return 0, err
		}
		if !r.last(SessionOfHooks) || r.at < chain.FormatTime(by.At.Add(-sameEnd)) {
			return int(index) + 1, nil
		}
		if last = index - 1; last < 0 {
			return 0, nil
		}
	}
	return int(last) + 1, nil
}

// Calling says how records of tool calls are appended.
type Calling struct {
	// The calls are reported late: where a key exists for something else already, they are left
	// out. Others become records of their own: a call ID that comes twice must hide nothing.
	Late bool
	// The record of a request holds a decision, whether the company has policies or not.
	Decide bool
	Folder string // in which the agent works, for decisions; "" where it is unknown
	// The passport that covers the call, nil where none was asked for. Unauthorized says that one
	// was, and that there is none.
	Passport     *store.Passport
	Unauthorized bool
}

// AppendCalls appends the records of tool calls, all or none of each MaxItems. It returns the
// decision that the last record of a request holds; nil without.
func (a *Attestations) AppendCalls(ctx context.Context, by store.Caller, agent string, records []action.Record, how Calling) (made *decision.Decision, err error) {
	for part := range slices.Chunk(records, MaxItems) {
		appended, err := a.appendCalls(ctx, by, agent, part, how)
		if err != nil {
			return nil, err
		}
		for i := range appended {
			d, err := decision.Of(appended[i].Payload)
			if err != nil {
				return nil, err
			}
			if d != nil {
				made = d
			}
		}
	}
	return made, nil
}

func (a *Attestations) appendCalls(ctx context.Context, by store.Caller, agent string, records []action.Record, how Calling) ([]chain.Appended, error) {
	items := make([]derived, 0, len(records))
	for _, r := range records {
		item := Attestation{AgentID: agent, ActionType: r.ActionType, Payload: r.Payload, Key: r.Key}
		item.Decide, item.Folder = how.Decide && r.ActionType == string(action.ToolRequested), how.Folder
		item.passport, item.unauthorized = how.Passport, how.Unauthorized
		exists, err := a.isRecordedInClear(ctx, by, &item)
		if err != nil {
			return nil, err
		}
		if exists {
			continue
		}
		if item.Key, err = a.attemptKey(ctx, by, &item, r.Key); err != nil {
			return nil, err
		}
		d := derived{Attestation: item}
		if !how.Late {
			d.other = func() string { return derivedKey(by, r.OtherKey()) }
		}
		items = append(items, d)
	}
	return a.appendDerived(ctx, by, items, func(_ *derived, refused error) error { return refused })
}

// maxAttempts bounds how often one event of a call is recorded, each time with another approval.
const maxAttempts = 16

// attemptKey returns the key of a record of a call. A request that is recorded with the verdict ask
// is attempted again, under a further key, once its approval allows that: both records are of one
// call, and the second one is found by a retry too.
func (a *Attestations) attemptKey(ctx context.Context, by store.Caller, item *Attestation, of string) (key string, err error) {
	key = derivedKey(by, of)
	if of == "" || item.ActionType != string(action.ToolRequested) {
		return key, nil
	}
	// without policies nothing was ever decided ask
	if set, err := a.Store.Cedar.Set(ctx, by); err != nil || set.Revision == 0 {
		return key, err
	}
	for range maxAttempts {
		isOf := func(r *chain.Record) bool {
			var has struct{ AgentID, ActionType string }
			return json.Unmarshal(r.Payload, &has) == nil && has.AgentID == item.AgentID && has.ActionType == item.ActionType
		}
		r, err := a.Store.Retries.RecordedUnder(ctx, by, names.Key(key), isOf)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.IsPruned() {
			return key, nil
		}
		var made *decision.Decision
		if err == nil {
			made, err = decision.Of(r.Payload)
		}
		if err != nil {
			return "", err
		}
		if made == nil || made.Verdict != decision.Ask || made.Approval == "" {
			return key, nil
		}
		asked, err := a.Store.Approvals.Get(ctx, by, made.Approval)
		if errors.Is(err, store.ErrNotFound) {
			return key, nil
		}
		if err != nil {
			return "", err
		}
		if state := asked.StateAt(by.At); state != store.ApprovalIsApproved && state != store.ApprovalIsUsed {
			return key, nil
		}
		of += "\x00" + made.Approval
		key = derivedKey(by, of)
	}
	return key, nil
}

// isRecordedInClear says whether its key has the very same record as earlier versions stored it,
// which any writer of the company can name: a retry over an upgrade makes no second record, and
// what else is there counts for nothing.
func (a *Attestations) isRecordedInClear(ctx context.Context, by store.Caller, item *Attestation) (bool, error) {
	if item.Key == "" {
		return false, nil
	}
	draft, _, _ := a.draft(ctx, by, item) // what it refuses, the append refuses too
	if len(draft.Keys) == 0 {
		return false, nil
	}
	_, err := a.Store.Retries.Recorded(ctx, by, &draft.Keys[0], &draft)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, chain.ErrKeyReused) {
		return false, nil
	}
	return err == nil, err
}
