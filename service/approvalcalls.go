package service

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"time"

	"attestd/chain"
	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/crypto/jcs"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/internal/lazyregexp"
	"attestd/service/decide"
	"attestd/store"
)

// DefaultApprovalWithin is until when a request can be decided where nothing else is said.
const DefaultApprovalWithin = 10 * time.Minute

// maxCallDepth is above how deep the payload of a record nests.
const maxCallDepth = 2 * MaxDepth

// ApprovalRequested is the actionType of the request for an approval.
const ApprovalRequested = "approval.requested"

// call is a call as approvals name it.
type call struct {
	tool      string // with its MCP server before a slash; "" of an action that is none
	session   string // "" for none
	arguments []byte // in the form of RFC 8785
}

// callIn reads the call that a payload is about, as decisions do.
func callIn(company, agentID, actionType string, payload []byte) (c call, err error) {
	req := decide.Recorded(company, agentID, actionType, payload, decision.Context{Door: decide.DoorAttest})
	c.session = req.Context.Session
	arguments := payload
	if req.Action == decide.Call {
		c.tool = req.Tool
		if req.Server != "" {
			c.tool = req.Server + "/" + req.Tool
		}
		if arguments, err = argumentsIn(payload); err != nil {
			return c, err
		}
	}
	if arguments == nil {
		arguments = []byte("{}")
	}
	c.arguments, err = jcs.Append(nil, arguments, maxCallDepth)
	return c, err
}

// argumentsIn returns the arguments in a payload as they are there: those that are too long are
// their hash.
func argumentsIn(payload []byte) (arguments []byte, err error) {
	var input []byte
	err = strictjson.EachMember(payload, maxCallDepth, func(name, value []byte) {
		switch string(name) {
		case "input":
			input = bytes.Clone(value)
		case "arguments":
			arguments = bytes.Clone(value)
		}
	})
	if input != nil {
		arguments = input
	}
	return arguments, err
}

// altered are texts that the tool does not get as they are on record, and of which no hash is there
// either: what is masked without a digest, and replaced characters.
var altered = lazyregexp.New(`\[masked [0-9]+\]|\x{FFFD}`)

// isWhole reports whether the arguments on record are those of one call alone.
func (c *call) isWhole() bool { return !altered().Match(c.arguments) }

// name names the call of an agent: SHA-256 of the RFC 8785 form of what makes it the same.
func (c *call) name(agentID, actionType string) chain.Hash {
	text := []byte(`["attestd call v1",`)
	for _, part := range []string{agentID, actionType, c.tool} {
		text = append(jcs.AppendString(text, part), ',')
	}
	return sha256.Sum256(append(append(text, c.arguments...), ']'))
}

// callOfRecord names the call that a record of actions is about, or asks for.
func callOfRecord(company string, r *chain.Record) (name chain.Hash, err error) {
	var has Attestation
	err = strictjson.EachMember(r.Payload, maxCallDepth, func(name, value []byte) {
		switch string(name) {
		case "agentId":
			has.AgentID, _ = strictjson.AsString(value)
		case "actionType":
			has.ActionType, _ = strictjson.AsString(value)
		case "payload":
			has.Payload = bytes.Clone(value)
		}
	})
	if err != nil {
		return name, err
	}
	actionType := has.ActionType
	if actionType == ApprovalRequested {
		var of struct{ ActionType string }
		if err := json.Unmarshal(has.Payload, &of); err != nil {
			return name, err
		}
		if actionType = of.ActionType; actionType == "" {
			actionType = string(action.ToolRequested)
		}
	}
	c, err := callIn(company, has.AgentID, has.ActionType, has.Payload)
	return c.name(has.AgentID, actionType), err
}

// asked returns what a decision asks people for: nil where it needs no approval, and there is none
// that would be used. A call whose arguments are not whole on record cannot be approved: it stays
// ask, without an approval.
func (a *Attestations) asked(ctx context.Context, by store.Caller, item *Attestation, stmt *statement.Statement, made *decision.Decision, ask *decide.Ask) (*store.Asked, error) {
	needs := made.Verdict == decision.Ask && ask != nil
	if !needs && (made.Verdict != decision.Allow || made.Policies != store.NoCedarPolicies) {
		return nil, nil
	}
	c, err := callIn(by.Company.ID, item.AgentID, item.ActionType, item.Payload)
	if err != nil || !c.isWhole() {
		return nil, err
	}
	asked := &store.Asked{
		Call: c.name(item.AgentID, item.ActionType), Session: c.session, AgentID: item.AgentID, ActionType: item.ActionType, Tool: c.tool, Person: askedFor(by, made.Context.Person),
		Quorum: 1, Allowed: !needs, CallOf: func(r *chain.Record) (chain.Hash, error) { return callOfRecord(by.Company.ID, r) },
	}
	if !needs { // without policies, only what was asked for is used up
		is, err := a.Store.Approvals.IsThere(ctx, by, asked.Call)
		if err != nil || !is {
			return nil, err
		}
		return asked, nil
	}
	if stmt != nil && stmt.Session != "" {
		asked.Session = stmt.Session
	}
	if asked.Tool == "" {
		asked.Tool = item.ActionType
	}
	within := ask.Within
	if within == 0 {
		within = DefaultApprovalWithin
	}
	asked.Quorum, asked.Approvers, asked.Expires = ask.Quorum, ask.Approvers, by.At.Add(within)
	return asked, nil
}

// askedFor names for whom an agent asks: a person who has signed in, or with whom its delegation
// begins; "" for nobody.
func askedFor(by store.Caller, person string) string {
	if by.Person != "" {
		return "person:" + by.Person
	}
	return person
}

// asking is what becomes of drafts of which some need an approval.
type asking struct {
	asked []*store.Asked       // nil for one that needs none
	made  []*decision.Decision // of those that have an Asked
}

func (a *asking) add(asked *store.Asked, made *decision.Decision) {
	a.asked, a.made = append(a.asked, asked), append(a.made, made)
}

// appendDrafts appends drafts: of those that need an approval, what it is is decided in the
// transaction.
func (a *Attestations) appendDrafts(ctx context.Context, by store.Caller, drafts []chain.Draft, q *asking) ([]chain.Appended, error) {
	if !slices.ContainsFunc(q.asked, func(asked *store.Asked) bool { return asked != nil }) {
		return a.Store.AppendAll(ctx, drafts)
	}
	records, err := a.Store.Approvals.Append(ctx, by, q.asked, func(i int, found store.Approved) (chain.Draft, error) {
		d := drafts[i]
		if q.asked[i] == nil || q.made[i] == nil {
			return d, nil
		}
		made := *q.made[i]
		made.Approval = found.ID
		switch {
		case found.Used:
			made.Verdict = decision.Allow
		case found.Limit:
			made.Verdict, made.Code, made.By = decision.Deny, decision.ApprovalLimit, nil
		}
		d.Payload = bytes.Clone(d.Payload)
		return d, hold(&d, &made)
	})
	appended := make([]chain.Appended, len(records))
	for i := range records {
		appended[i].Record = records[i]
	}
	return appended, err
}
