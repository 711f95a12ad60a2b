package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/chain/search"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/store"
	"attestd/store/names"
)

// Calls finds calls of tools that were refused and ran all the same, as records are appended. What
// it finds becomes a control record, call.disobeyed. Package action says what such a call is.
type Calls struct {
	Store *store.Store
}

const (
	// examinedAtOnce bounds one examination, in records of calls and in bytes that are read
	examinedAtOnce = 128
	examinedBytes  = 1 << 20

	// maxCallsBack bounds how many records of calls before a refusal are examined, for requests
	// and outcomes of the same call; maxRecordsBack is the same for records of any kind.
	maxCallsBack   = 1024
	maxRecordsBack = 1 << 16
)

// maxRecordDepth is above how deep the payload of a record nests.
const maxRecordDepth = 2 * MaxDepth

// anyCall and refusals are what is searched for: refusals alone, be they decisions about requests,
// while none is remembered, and else all records of calls. Most companies have no refusals, and
// summaries say so.
var (
	anyCall  = search.Filter{Action: "tool.*", OrAction: string(action.Telemetry)}
	refusals = search.Filter{Action: "tool.denied", OrRefused: true}
)

// examined is a record of a call.
type examined struct {
	index   int64
	at      string
	call    action.Call
	session names.Session
	// it is telemetry, which is in no session of hooks or statements
	isTelemetry bool
}

// Examine looks at some of the actions of a company from a record on, and returns where to go on.
// done is true at the end of the log.
func (c *Calls) Examine(ctx context.Context, company *store.Company, from int64, at time.Time) (next int64, done bool, err error) {
	number := company.Actions.Chain
	head, _, err := c.Store.Tip(ctx, number)
	if err != nil {
		return from, false, err
	}
	if from >= head.Length { // also after a rollback
		return head.Length, true, nil
	}
	by := store.Caller{Company: company, Role: store.Admin, At: at}
	all, err := c.Store.Calls.AnyRefused(ctx, number)
	if err != nil {
		return from, false, err
	}
	filter := refusals
	if all {
		filter = anyCall
	}
	var found []examined
	var damage *search.DamageError
	scan := search.NewScan(c.Store, number, filter, from, head.Length, false)
	for !scan.Done() && len(found) < examinedAtOnce && scan.Read < examinedBytes {
		err := scan.Step(ctx, func(r *chain.Record) bool {
			if one, ok := readCall(r); ok {
				found = append(found, one)
			}
			return len(found) < examinedAtOnce
		})
		if errors.As(err, &damage) { // verification reports it
			break
		}
		if err != nil {
			return from, false, fmt.Errorf("calls of %s: %w", company.ID, err)
		}
	}
	if next = scan.From; damage != nil {
		next = damage.Index + 1
	}
	if len(found) == examinedAtOnce { // the last one is undecided for the scan
		next = found[len(found)-1].index + 1
	}
	if !all && len(found) > 0 { // what follows it may be its outcome
		found = found[:1]
		next = found[0].index + 1
	}
	if err := c.count(ctx, by, found); err != nil {
		return from, false, err
	}
	return next, next >= head.Length, nil
}

// readCall reads a record of a call.
func readCall(r *chain.Record) (one examined, ok bool) {
	one.index, one.at = r.Index, r.Timestamp
	var a Attestation
	var made *decision.Decision
	var undecided error
	err := strictjson.EachMember(r.Payload, maxRecordDepth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			a.AgentID, _ = strictjson.AsString(value)
		case "actionType":
			a.ActionType, _ = strictjson.AsString(value)
		case "payload":
			a.Payload = value
		case "statement":
			a.Statement, _ = strictjson.AsString(value)
		case "decision":
			var d decision.Decision
			d, undecided = decision.Parse(value)
			made = &d
		}
	})
	if err != nil || undecided != nil { // verification reports it
		return one, false
	}
	if one.call, ok = action.Read(a.AgentID, a.ActionType, a.Payload, made); !ok {
		return one, false
	}
	one.isTelemetry = a.ActionType == string(action.Telemetry)
	one.session, _ = names.Named(a.AgentID, a.ActionType, a.Payload)
	if stmt, err := statement.Parse(a.Statement); err == nil && stmt.Session != "" {
		one.session = names.Session{AgentID: a.AgentID, Key: stmt.KeyID, ID: stmt.Session}
	}
	return one, true
}

// count adds records to what is remembered of refused calls, and records the calls that disobeyed.
func (c *Calls) count(ctx context.Context, by store.Caller, records []examined) error {
	if len(records) == 0 {
		return nil
	}
	number := by.Company.Actions.Chain
	called := make([]chain.Hash, len(records))
	for i := range records {
		called[i] = store.CallName(number, &records[i].call)
	}
	known, err := c.Store.Calls.Refused(ctx, called)
	if err != nil {
		return err
	}
	var changed []chain.Hash
	var disobeyed []store.DisobeyedCall
	for i := range records {
		r := &records[i]
		call, isKnown := known[called[i]]
		switch {
		case isKnown && r.index < call.Counted: // by another server, or before a kill
			continue
		case !isKnown && !r.call.Kind.Refuses():
			continue
		case !isKnown:
			refusedAt, err := time.Parse(time.RFC3339Nano, r.at)
			if err != nil {
				return fmt.Errorf("%w: the time of record %d: %w", store.ErrCorrupt, r.index, err)
			}
			call = store.NewRefusedCall(called[i], refusedAt)
			if call.State, err = c.before(ctx, number, r); err != nil {
				return err
			}
		}
		if call.State.Add(r.index, &r.call) {
			session := r.session
			if r.isTelemetry {
				if session, err = c.sessionOf(ctx, number, call.State.Refused); err != nil {
					return err
				}
			}
			disobeyed = append(disobeyed, store.DisobeyedCall{Disobeyed: call.State.Disobeyed(), Call: r.call, Session: session})
		}
		call.Counted = r.index + 1
		known[called[i]] = call
		if !slices.Contains(changed, called[i]) {
			changed = append(changed, called[i])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	calls := make([]store.RefusedCall, len(changed))
	for i, name := range changed {
		calls[i] = known[name]
	}
	return c.Store.Calls.Save(ctx, by, calls, disobeyed)
}

// sessionOf returns the session of a record of a call; the zero one for none, and where the record
// is damaged, which verification reports.
func (c *Calls) sessionOf(ctx context.Context, number, index int64) (of names.Session, err error) {
	scan := search.NewScan(c.Store, number, anyCall, index, index+1, false)
	for !scan.Done() && err == nil {
		err = scan.Step(ctx, func(r *chain.Record) bool {
			if one, ok := readCall(r); ok {
				of = one.session
			}
			return true
		})
	}
	if damage := (*search.DamageError)(nil); errors.As(err, &damage) {
		err = nil
	}
	return of, err
}

// before returns the state of a call after the records before its refusal: its request, another
// open request of its ID, or an outcome that was not spooled as the refusal was.
func (c *Calls) before(ctx context.Context, number int64, refusal *examined) (s action.State, err error) {
	filter, key := anyCall, refusal.call.Key()
	filter.Agent = refusal.call.Agent
	var same []examined // the last first
	seen := 0
	scan := search.NewScan(c.Store, number, filter, max(0, refusal.index-maxRecordsBack), refusal.index, true)
	for !scan.Done() && seen < maxCallsBack {
		err := scan.Step(ctx, func(r *chain.Record) bool {
			seen++
			if one, ok := readCall(r); ok && one.call.Key() == key {
				same = append(same, one)
			}
			return seen < maxCallsBack
		})
		if damage := (*search.DamageError)(nil); errors.As(err, &damage) {
			break
		}
		if err != nil {
			return s, fmt.Errorf("calls before record %d: %w", refusal.index, err)
		}
	}
	for i := len(same) - 1; i >= 0; i-- {
		s.Add(same[i].index, &same[i].call)
	}
	return s, nil
}

// maxDisobeyed is how many of the calls of a session that disobeyed a refusal are listed.
const maxDisobeyed = 100

// addDisobeyed says of a session which of its calls disobeyed a refusal.
func (s *Session) addDisobeyed(ctx context.Context, v *store.View, by store.Caller, of store.Session) (err error) {
	if s.Disobeyed, _, err = v.Disobeyed(ctx, by, of.Session, maxDisobeyed); err != nil || len(s.Disobeyed) == 0 {
		return err
	}
	s.Completeness, s.State = s.State, SessionDisobeyed
	return nil
}
