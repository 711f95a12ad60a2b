package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/jose"
	"attestd/crypto/statement"
	"attestd/crypto/strictjson"
	"attestd/internal/sleep"
	"attestd/store"
)

// checkStatement requires that a statement says what its attestation does, by a key of the agent
// that is live. action is the action_hash of the attestation.
func (a *Attestations) checkStatement(ctx context.Context, by store.Caller, item *Attestation, action string) (*statement.Statement, error) {
	said, err := statement.Parse(item.Statement)
	if err != nil {
		return nil, statementError(err)
	}
	if err := a.Agents.MayAct(ctx, by, item.AgentID); err != nil {
		return nil, err // its keys do not count while it is disabled
	}
	key, err := a.Keys.live(ctx, by, item.AgentID, said.KeyID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, &Error{Kind: Forbidden, Code: statement.CodeKeyUnknown,
			Message: "The statement is signed with a key that is no live key of the agent: enrol it (POST /v1/agents/{agentId}/keys), or sign with another"}
	}
	if err != nil {
		return nil, err
	}
	want := statement.Expected{
		Issuer: by.Company.Issuer.AgentID(item.AgentID), Audience: by.Company.Issuer.CompanyID(),
		ActionHash: action, Delegation: delegationID(by, item.Delegation),
	}
	return said, statementError(said.Check(key, want, by.At))
}

// delegationID is the jti of a delegation token that is not checked yet, or the tokenId of the
// person for whom the caller acts; "" where there is none.
func delegationID(by store.Caller, token string) (id string) {
	if token == "" && by.Delegation != "" {
		person, _ := delegationOf(by) // verify reads it again
		return person.TokenID
	}
	t, err := jose.Parse(token, cred.MaxTokenSize)
	if err == nil {
		_ = strictjson.EachMember(t.Payload, MaxDepth, func(name, value []byte) {
			if string(name) == "jti" {
				id, _ = strictjson.AsString(value)
			}
		})
	}
	return id
}

// statementError is the refusal of a statement.
func statementError(err error) error {
	var refused *statement.Error
	if errors.As(err, &refused) {
		return &Error{Kind: Invalid, Code: refused.Code, Message: "Invalid field: " + refused.Message}
	}
	return err
}

// takenError is the refusal of what would make an agent say two things in one place, if the record
// that is there has the name indeed.
func (a *Attestations) takenError(ctx context.Context, by store.Caller, err error) error {
	if !errors.Is(err, chain.ErrTaken) {
		return err
	}
	if err := a.Store.CheckTaken(ctx, by, err); err != nil {
		return err
	}
	return &Error{Kind: Conflict, Code: statement.CodeReused, Pointer: "/statement",
		Message: "Another statement of this key that is recorded has this jti, or this sid and seq"}
}

// maxClockGap is how far the clocks of two servers may be apart for a key that one has just
// enrolled to be used at the other.
const maxClockGap = 10 * time.Second

// live returns a key of an agent that counts now; store.ErrNotFound. Where the clock of the server
// that has enrolled it is ahead, live waits: a checker refuses a record that is older than its key.
func (a *AgentKeys) live(ctx context.Context, by store.Caller, agentID, thumbprint string) (*jose.Key, error) {
	k, err := a.Store.AgentKeys.Live(ctx, by, agentID, thumbprint)
	if err != nil {
		return nil, err
	}
	gap := time.Until(k.Since)
	if gap > maxClockGap {
		return nil, fmt.Errorf("key %s was enrolled by a server whose clock is %s ahead: %w", thumbprint, gap, store.ErrUnavailable)
	}
	if err := sleep.For(ctx, gap); err != nil {
		return nil, err
	}
	return k.Public, nil
}

// mayDoWithout refuses what no key of the agent has signed, where the policy demands that one has.
func (a *AgentKeys) mayDoWithout(ctx context.Context, by store.Caller, agentID string) error {
	demanded, err := a.Store.Policies.DemandsKey(ctx, by, agentID)
	if err == nil && demanded {
		err = &Error{Kind: Forbidden, Code: "AGENT_KEY_REQUIRED", Message: "In the name of this agent is recorded only what one of its keys has signed: send a statement"}
	}
	return err
}

// mayActAs refuses what an agent that has signed in does in the name of another.
func mayActAs(by store.Caller, agentID string) error {
	if by.Agent != "" && by.Agent != agentID {
		return &Error{Kind: Forbidden, Code: "FORBIDDEN_AGENT", Message: "The credential is the agent " + by.Agent + "'s own, and acts for no other"}
	}
	return nil
}
