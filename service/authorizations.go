package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/internal/bounded"
	"attestd/service/decide"
	"attestd/store"
)

// Authorizations decides for the doors at which nothing is recorded of the agent's request, and
// records the decision: each that denies, and each that allows where the company asks for that.
type Authorizations struct {
	Store     *store.Store
	Decisions *Decisions
	Log       *slog.Logger

	mu     sync.Mutex
	counts *bounded.Map[countedDecisions, decisionCount]
}

// Question is what such a door asks.
type Question struct {
	AgentID string // "" where the subject is no agent of the company
	Subject Named  // who that is
	// decide.Call with the tool as server/name or name, decide.Attest with the actionType, or
	// decide.Token with the audience
	Action, Resource string
	Arguments        json.RawMessage // nil for none
	Passport         string          // the jti of the passport by which it is asked; "" without
	Code             string          // why the door denies it already; "" where it does not
	Context          decision.Context
}

// Named is a subject by its type and ID.
type Named struct{ Type, ID string }

// asked reports whether doors that were there before policies ask: while a company has never had a
// policy, and does not want all decisions on record, nothing changes there.
func (a *Authorizations) asked(ctx context.Context, by store.Caller) (bool, error) {
	set, err := a.Store.Cedar.Set(ctx, by)
	if err != nil || set.Revision > 0 {
		return true, err
	}
	which, err := a.Store.Policies.Decisions(ctx, by)
	return which == store.DecisionsAll, err
}

// Decide decides, and records that where it must be on record. What must be and cannot is denied.
// An error is one of the storage, without which nothing can be decided.
//
// Nothing is recorded while a company is suspended.
func (a *Authorizations) Decide(ctx context.Context, by store.Caller, q Question) (decision.Decision, error) {
	payload := q.payload()
	counted := false
	var suppressed int64
	for range maxDecided {
		made, err := a.decide(ctx, by, &q, payload)
		if err != nil || made.Code == decision.Suspended {
			return made, err
		}
		if !counted {
			record, err := a.records(ctx, by, &made)
			if err != nil {
				return decision.Decision{}, err
			}
			if record {
				suppressed, record = a.count(by, &q, &made)
			}
			if !record {
				return made, nil
			}
			counted = true
		}
		err = a.append(ctx, by, &q, payload, suppressed, &made)
		switch {
		case err == nil:
			return made, nil
		case errors.Is(err, chain.ErrRevision):
			a.Store.Cedar.Forget(by)
		default:
			a.Log.LogAttrs(ctx, slog.LevelWarn, "a decision could not be recorded", slog.String("company", by.Company.ID), slog.String("error", err.Error()))
			a.uncount(by, &q, &made, suppressed)
			if made.Verdict == decision.Allow {
				made.Verdict, made.Code, made.By = decision.Deny, decision.Failed, nil
			}
			return made, nil
		}
	}
	return decision.Decision{}, fmt.Errorf("%w: the policies of the company change too often", store.ErrUnavailable)
}

// decide decides in the order of all doors: the company and the agent must be live, the passport
// good, and what details and policies say comes last.
func (a *Authorizations) decide(ctx context.Context, by store.Caller, q *Question, payload []byte) (decision.Decision, error) {
	code := q.Code
	err := a.Store.Companies.Active(ctx, by)
	if errors.Is(err, store.ErrSuspended) {
		code, err = decision.Suspended, nil
	}
	if err == nil && q.AgentID != "" && code != decision.Suspended {
		err = a.Store.Agents.Check(ctx, by, q.AgentID)
		if errors.Is(err, store.ErrDisabled) {
			code, err = decision.AgentDisabled, nil
		}
		if errors.Is(err, store.ErrNotFound) { // who issued its passport knew it
			err = nil
		}
	}
	if err != nil {
		return decision.Decision{}, err
	}
	made, _, err := a.Decisions.Decide(ctx, by, q.name(), decision.AuthorizationDenied, payload, q.Context)
	made.Passport = q.Passport
	if err == nil && code != "" {
		made.Verdict, made.Code, made.By, made.Errors = decision.Deny, code, nil, nil
	}
	return made, err
}

// records reports whether a decision becomes a record.
func (a *Authorizations) records(ctx context.Context, by store.Caller, made *decision.Decision) (bool, error) {
	if made.Verdict != decision.Allow {
		return true, nil
	}
	which, err := a.Store.Policies.Decisions(ctx, by)
	return which == store.DecisionsAll, err
}

// name is the agentId of the record.
func (q *Question) name() string {
	if q.AgentID == "" {
		return decision.UnknownAgent
	}
	return q.AgentID
}

// payload is the payload of the record, which is what is decided: the arguments are masked first,
// so that the decision can be made again.
func (q *Question) payload() []byte {
	payload := jcs.AppendString([]byte(`{"door":`), q.Context.Door)
	payload = jcs.AppendString(append(payload, `,"action":`...), q.Action)
	payload = jcs.AppendString(append(payload, `,"resource":{"type":`...), decide.Resources[q.Action])
	id := q.Resource
	if q.Action != decide.Token || len(id) > maxResourceSize { // a rule may name any audience
		id = action.RecordedName(id)
	}
	payload = jcs.AppendString(append(payload, `,"id":`...), id)
	payload = append(payload, '}')
	if q.Arguments != nil {
		payload = append(append(payload, `,"arguments":`...), action.Policy{Limit: decide.MaxArguments}.Member(q.Arguments, false, false)...)
	}
	if q.AgentID == "" {
		payload = jcs.AppendString(append(payload, `,"subject":{"type":`...), action.RecordedID(q.Subject.Type))
		payload = jcs.AppendString(append(payload, `,"id":`...), action.RecordedID(q.Subject.ID))
		payload = append(payload, '}')
	}
	return append(payload, '}')
}

// append appends the record of a decision.
func (a *Authorizations) append(ctx context.Context, by store.Caller, q *Question, payload []byte, suppressed int64, made *decision.Decision) error {
	item := Attestation{AgentID: q.name(), ActionType: decision.AuthorizationDenied, Payload: payload}
	if made.Verdict == decision.Allow {
		item.ActionType = decision.AuthorizationAllowed
	}
	if suppressed > 0 {
		item.Payload = append(strconv.AppendInt(append(payload[:len(payload)-1:len(payload)-1], `,"suppressed":`...), suppressed, 10), '}')
	}
	d := chain.Draft{Chain: by.Company.Chain, Decided: true}
	var err error
	if d.Payload, d.Canonical, _, err = recordPayload(by.Company.ID, &item); err != nil {
		return err
	}
	if err := hold(&d, made); err != nil {
		return err
	}
	_, err = a.Store.AppendAll(ctx, []chain.Draft{d})
	var refused *chain.DraftError
	if errors.As(err, &refused) {
		err = refused.Err
	}
	return err
}

// The decisions about an agent that this server records: so many of each kind a minute, so that
// nobody fills a log, and what is allowed hides nothing that is denied.
const (
	maxRecordedDecisions = 100
	maxCountedAgents     = 10_000 // about so many are remembered
)

type countedDecisions struct {
	company int64
	agent   string
	allowed bool
}

// decisionCount is what was decided since the begin of a minute.
type decisionCount struct {
	since                time.Time
	recorded, suppressed int64
}

func (q *Question) counted(by store.Caller, made *decision.Decision) countedDecisions {
	return countedDecisions{by.Company.Chain, q.name(), made.Verdict == decision.Allow}
}

// count counts a decision. record is false for one too many; suppressed is how many were not
// recorded before it.
func (a *Authorizations) count(by store.Caller, q *Question, made *decision.Decision) (suppressed int64, record bool) {
	key := q.counted(by, made)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.counts == nil {
		a.counts = bounded.NewMap[countedDecisions, decisionCount](maxCountedAgents)
	}
	c, _ := a.counts.Get(key)
	if passed := by.At.Sub(c.since); passed >= time.Minute || passed <= -time.Minute {
		c = decisionCount{since: by.At, suppressed: c.suppressed}
	}
	if record = c.recorded < maxRecordedDecisions; record {
		suppressed, c.suppressed = c.suppressed, 0
		c.recorded++
	} else {
		c.suppressed++
	}
	a.counts.Put(key, c)
	return suppressed, record
}

// uncount counts a decision that could not be recorded among those that were not.
func (a *Authorizations) uncount(by store.Caller, q *Question, made *decision.Decision, suppressed int64) {
	key := q.counted(by, made)
	a.mu.Lock()
	defer a.mu.Unlock()
	c, _ := a.counts.Get(key)
	c.suppressed += suppressed + 1
	a.counts.Put(key, c)
}
