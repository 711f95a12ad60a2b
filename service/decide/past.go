package decide

import (
	"errors"

	"attestd/chain/action"
	"attestd/chain/decision"
	"attestd/chain/evidence"
	"attestd/crypto/strictjson"
)

// The doors, as decisions name them.
const (
	DoorAttest  = "attest" // attestations, hooks and MCP proxies
	DoorAuthZEN = "authzen"
	DoorVerify  = "verify"  // of passports
	DoorToken   = "token"   // the token endpoint
	DoorForward = "forward" // of a proxy in front of another service
)

// Past is a record that is decided again: it holds a decision that policies make, or is the request
// of a tool call that holds none, which was let through.
type Past struct {
	AgentID string
	Was     *string // the verdict; nil where nothing decided

	company, actionType string
	payload             []byte
	context             decision.Context
	approved            bool // it was allowed with an approval
}

// ReadPast reads a record of its time and payload object. It returns nil where the record is none
// that is decided again.
func ReadPast(timestamp string, object []byte) (*Past, error) {
	p := Past{context: decision.Context{Door: DoorAttest, Time: timestamp}}
	var made []byte
	isControl := false
	err := strictjson.EachMember(object, maxPayloadDepth, func(name, value []byte) {
		text, _ := strictjson.AsString(value)
		switch string(name) {
		case "agentId":
			p.AgentID = text
		case "companyId":
			p.company = text
		case "actionType":
			p.actionType = text
		case "payload":
			p.payload = value
		case "decision":
			made = value
		case "log":
			isControl = true
		}
	})
	switch {
	case err != nil:
		return nil, err
	case p.AgentID == "" || p.company == "" || p.actionType == "" || p.payload == nil:
		return nil, errNoAction
	case isControl || made == nil && p.actionType != string(action.ToolRequested):
		return nil, nil
	case made == nil:
		return &p, nil
	}
	d, err := decision.Parse(made)
	if err != nil {
		return nil, err
	}
	if !decision.ByPolicies(d.Code) {
		return nil, nil
	}
	p.Was, p.context = &d.Verdict, d.Context
	p.approved = d.Verdict == Allow && d.Approval != "" // that of ask is still to be decided
	return &p, nil
}

var errNoAction = errors.New("the payload of a record has agentId, companyId, actionType and payload")

// Again decides a record again. groups are those of its agent, which count where the record does
// not say them because it holds no decision. What was allowed with an approval has it again where
// the policies ask for one. differs is whether the verdict is another one.
func (s *Set) Again(p *Past, groups []string) (made Decision, differs bool) {
	c, was := p.context, Allow
	if p.Was == nil {
		c.Groups = groups
	} else {
		was = *p.Was
	}
	made = s.Decide(Recorded(p.company, p.AgentID, p.actionType, p.payload, c))
	if p.approved && made.Verdict == AskFor {
		made.Verdict, made.Ask = Allow, nil
	}
	if made.By == nil {
		made.By = []string{}
	}
	return made, made.Verdict != was
}

// Decider makes the decisions of files of evidence again. It remembers the set that it used last.
type Decider struct {
	of  *evidence.PolicySet
	set *Set
}

// Decide implements evidence.Decider.
func (r *Decider) Decide(of *evidence.PolicySet, object []byte) (decision.Decision, error) {
	past, err := ReadPast("", object)
	if err == nil && (past == nil || past.Was == nil) {
		err = errors.New("the record holds no decision")
	}
	if err != nil {
		return decision.Decision{}, err
	}
	if r.of != of {
		policies := make([]Policy, 0, len(of.Texts))
		for id, text := range of.Texts {
			policies = append(policies, Policy{id, text})
		}
		r.set, _ = Compile(policies) // without a set it denies, as the service does
		r.of = of
	}
	made, _ := r.set.Again(past, nil)
	return decision.Decision{Verdict: made.Verdict, By: made.By, Errors: made.Errors, Code: made.Code}, nil
}
