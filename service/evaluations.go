package service

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"attestd/chain/decision"
	"attestd/service/decide"
	"attestd/store"
)

// Evaluation is an access evaluation of AuthZEN 1.0: may a subject do an action with a resource?
type Evaluation struct {
	Subject, Resource Named
	Action            string
	Arguments         json.RawMessage // of a call, in the context; nil for none
	Request           json.RawMessage // subject, action, resource and context as they were sent
}

// subjectTypes are the types of subjects that are agents. AuthZEN's own tests call them users, and
// its gateways identities.
var subjectTypes = map[string]bool{"agent": true, "user": true, "identity": true}

// Evaluate decides an access evaluation. Every action with a tool is its call, so that a rule
// against the tool holds by whatever name it is used; any other is of its name as actionType, with
// the whole request as arguments. The error is an *Error where an agent
// asks about another.
func (a *Authorizations) Evaluate(ctx context.Context, by store.Caller, e Evaluation) (decision.Decision, error) {
	q := Question{Subject: e.Subject, Action: decide.Attest, Resource: e.Action, Arguments: e.Request, Context: decision.Context{Door: decide.DoorAuthZEN}}
	if e.Resource.Type == decide.Resources[decide.Call] {
		q.Action, q.Resource, q.Arguments = decide.Call, e.Resource.ID, e.Arguments
	}
	agent, err := a.agentNamed(ctx, by, e.Subject)
	if err != nil {
		return decision.Decision{}, err
	}
	if by.Agent != "" {
		if err := mayActAs(by, agent); err != nil {
			return decision.Decision{}, err
		}
		q.Context.Scopes = strings.Fields(string(by.Scope))
		if by.Delegation != "" {
			if err := delegated(&q.Context, []byte(by.Delegation)); err != nil {
				return decision.Decision{}, err
			}
		}
	}
	limited(&q.Context, by.Details)
	q.AgentID = agent
	switch {
	case agent == "":
		q.Code = decision.SubjectUnknown
	case e.Action == decide.Call && q.Action != decide.Call:
		q.Code = decision.ActionUnknown
	}
	return a.Decide(ctx, by, q)
}

// agentNamed returns the registered agent of the company that a subject is, by its ID or SPIFFE ID;
// "" for none.
func (a *Authorizations) agentNamed(ctx context.Context, by store.Caller, subject Named) (string, error) {
	if !subjectTypes[subject.Type] {
		return "", nil
	}
	agent, own := by.Company.Issuer.OwnAgent(subject.ID)
	if !own {
		agent = subject.ID
	}
	err := a.Store.Agents.Check(ctx, by, agent)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", nil
	case errors.Is(err, store.ErrDisabled):
		err = nil
	}
	return agent, err
}
