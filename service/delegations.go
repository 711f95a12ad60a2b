package service

import (
	"context"
	"errors"
	"strings"

	"attestd/crypto/cred"
	"attestd/crypto/cred/details"
	"attestd/store"
)

// Delegations are tokens with which agents act for others.
type Delegations struct {
	Store  *store.Store
	Agents *Agents
	Tokens *Tokens
}

// Issue issues a token with which an agent of the company acts on behalf of a company.
func (t *Delegations) Issue(ctx context.Context, by store.Caller, agentID, actingOn, scope string, limits details.Details) (token string, d cred.Delegation, err error) {
	if err := t.Store.Tables.Changeable(ctx, by); err != nil {
		return "", d, err
	}
	if err := t.Agents.Check(ctx, by, agentID); err != nil {
		return "", d, err
	}
	issuer, err := issuerFor(by)
	if err != nil {
		return "", d, err
	}
	if limits, err = within(limits, "/authorizationDetails", by.Details); err != nil {
		return "", d, err
	}
	subject := issuer.Domain.CompanyID(actingOn)
	token, d, err = issuer.Limited(limits).Delegate(cred.Delegation{Subject: subject, Chain: []string{subject}}, issuer.AgentID(agentID), scope, by.At)
	return token, d, refusedToken("scope", err)
}

// Exchange is the token exchange of RFC 8693: the actor comes to act for all that the subject token
// names, within the authorization details of both tokens.
func (t *Delegations) Exchange(ctx context.Context, by store.Caller, subjectToken, actorToken string, limits details.Details) (token string, d cred.Delegation, err error) {
	if err := t.Store.Tables.Changeable(ctx, by); err != nil {
		return "", d, err
	}
	issuer, err := issuerFor(by)
	if err != nil {
		return "", d, err
	}
	subject, err := issuer.CheckDelegation(subjectToken, by.At)
	if err != nil {
		return "", d, refusedToken("subject_token", err)
	}
	actor, err := issuer.CheckDelegation(actorToken, by.At)
	if err != nil {
		return "", d, refusedToken("actor_token", err)
	}
	if len(actor.Chain) > 1 {
		return "", d, refuse(Invalid, "Invalid actor_token: it must be a plain SVID, without act")
	}
	if err := t.Agents.MayDelegate(ctx, by, append(subject.Chain, actor.Subject)); err != nil {
		return "", d, err
	}
	if limits, err = within(limits, "/authorization_details", subject.Details, actor.Details, by.Details); err != nil {
		return "", d, err
	}
	token, d, err = issuer.Limited(limits).Delegate(subject, actor.Subject, subject.Scope, by.At)
	return token, d, refusedToken("subject_token", err)
}

// verify checks a delegation token of either nesting, with which an action of an agent was done,
// and returns its canonical DelegationInfo, or nil when there is none. That of a chain is the same
// whichever the nesting of its token was.
func (t *Delegations) verify(ctx context.Context, by store.Caller, agentID, token string) ([]byte, error) {
	if token == "" {
		if by.Delegation != "" { // what is done for a person is so without a token too
			return []byte(by.Delegation), nil
		}
		return nil, nil
	}
	d, bound, err := t.check(ctx, by, token)
	if err == nil && bound {
		err = usedByActor(by, agentID, d)
	}
	if err == nil && by.Delegation != "" {
		err = samePerson(by, d)
	}
	if err != nil {
		return nil, err
	}
	return d.Canonical(), nil
}

// usedByActor refuses a delegation that another agent uses than its current actor, the last of its
// chain: that agent was not allowed to act. A caller that is an agent records in its own name
// alone, so this is about the caller too.
func usedByActor(by store.Caller, agentID string, d cred.Delegation) error {
	actor := d.Chain[len(d.Chain)-1]
	switch own, is := by.Company.Issuer.OwnAgent(actor); {
	case !is:
		return refuse(Invalid, "Invalid delegation: its current actor is "+actor+", which is no agent of the company, so no agent acts with it")
	case own != agentID:
		return refuse(Invalid, "Invalid delegation: its current actor is "+actor+", so it is good for records of the agent "+own+" alone")
	}
	return nil
}

// samePerson requires of an agent that has signed in for a person that it goes on for that person.
func samePerson(by store.Caller, d cred.Delegation) error {
	person, err := delegationOf(by)
	if err == nil && d.Subject != person.Subject {
		err = refuse(Invalid, "Invalid delegation: the access token is for a person, and it names another subject")
	}
	return err
}

// check checks a delegation token of either nesting. bound says that it is its current actor's
// alone to use: it has act or may_act, and is no mere SVID.
func (t *Delegations) check(ctx context.Context, by store.Caller, token string) (d cred.Delegation, bound bool, err error) {
	d, err = by.Company.Issuer.CheckDelegation(token, by.At)
	bound = d.Act != nil
	if err != nil {
		// no token is valid as both kinds: typ and issuer differ
		if iss, _ := UnverifiedIssuer(token); strings.HasSuffix(iss, IssuerOf("", by.Company.ID)) {
			d, bound, err = t.Tokens.delegation(ctx, by, token)
		}
	}
	if err != nil {
		return d, bound, refusedToken("delegation", err)
	}
	return d, bound, t.Agents.MayDelegate(ctx, by, d.Chain)
}

// within returns the authorization details of what is made of others, as those that are asked for
// or, where there are none, the narrowest of the others. What would be wider than one of the others
// is refused; pointer is the place of those that are asked for.
func within(asked details.Details, pointer string, others ...details.Details) (details.Details, error) {
	limits, ok := details.Within(asked, others...)
	if !ok {
		return limits, &Error{Kind: Invalid, Code: details.Code, Pointer: pointer, Message: "Invalid field: " + pointer[1:] + " " + widerDetails}
	}
	return limits, nil
}

const widerDetails = "must be narrower than those of the credential and of each token that is presented: each call that they cover must be covered there"

// refusedToken says why a token, or what should become one, is refused.
func refusedToken(field string, err error) error {
	var refused *cred.Error
	if errors.As(err, &refused) {
		return refuse(Invalid, "Invalid "+field+": "+refused.Message)
	}
	return err
}
