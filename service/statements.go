package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/statement"
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
	if err := said.CheckVersion(key.StatementVersion); err != nil {
		return nil, statementError(err)
	}
	want := statement.Expected{
		Issuer: by.Company.Issuer.AgentID(item.AgentID), Audience: by.Company.Issuer.CompanyID(), Log: by.Company.Actions.Origin, ActionHash: action,
	}
	if d, ok := delegationUnverified(by, item.Delegation); ok {
		want.TokenID, want.DelegationHash = d.TokenID, d.Hash()
	}
	return said, statementError(said.Check(key.Public, want, by.At))
}

// delegationUnverified is the DelegationInfo that the record will have: of a token that is not
// checked yet, or of the person for whom the caller acts. ok is false where there is none, and
// where none can be made of the token, which is refused later.
func delegationUnverified(by store.Caller, token string) (d cred.Delegation, ok bool) {
	if token != "" {
		d, err := cred.ReadDelegation(token)
		return d, err == nil
	}
	if by.Delegation == "" {
		return d, false
	}
	d, err := delegationOf(by)
	return d, err == nil
}

// coversDelegation requires that a statement, or nil, covers the delegation that its record has,
// which is checked by now. checkStatement has compared it with what the token said unchecked, so
// that a retry is answered after the token has ended.
func coversDelegation(said *statement.Statement, canonical []byte) error {
	if said == nil || said.Version() == 1 {
		return nil
	}
	hash := ""
	if canonical != nil {
		hash = statement.HashCanonical(canonical)
	}
	if said.Delegation != hash {
		return &Error{Kind: Invalid, Code: statement.CodeMismatch, Message: "Invalid field: statement delegation is not the SHA-256 of the record's delegation"}
	}
	return nil
}

// statementError is the refusal of a statement.
func statementError(err error) error {
	var refused *statement.Error
	if errors.As(err, &refused) {
		return &Error{Kind: Invalid, Code: refused.Code, Message: "Invalid field: " + refused.Message}
	}
	return err
}

// conflictError is the refusal of what would make an agent say two things in one place, if the
// record that is there has the name indeed.
func (a *Attestations) conflictError(ctx context.Context, by store.Caller, err error) error {
	if !errors.Is(err, chain.ErrTaken) {
		return err
	}
	if err := a.Store.CheckTaken(ctx, by, err); err != nil {
		return err
	}
	return &Error{Kind: Conflict, Code: statement.CodeReused, Pointer: "/statement",
		Message: "Another statement of this key that is recorded has this jti, or this sid and seq"}
}

// sessionError is the refusal of a sid that another key of the agent has used.
func sessionError(err error) error {
	if errors.Is(err, store.ErrOtherKey) {
		return &Error{Kind: Conflict, Code: statement.CodeReused, Pointer: "/statement",
			Message: "Another key of the agent has used this sid: a run that goes on under the next key is a new session, whose first statement has continues"}
	}
	return err
}

// maxClockGap is how far the clocks of two servers may be apart for a key that one has just
// enrolled to be used at the other.
const maxClockGap = 10 * time.Second

// live returns a key of an agent that counts now; store.ErrNotFound. Where the clock of the server
// that has enrolled it is ahead, live waits: a checker refuses a record that is older than its key.
func (a *AgentKeys) live(ctx context.Context, by store.Caller, agentID, thumbprint string) (k store.AgentKey, err error) {
	if k, err = a.Store.AgentKeys.Live(ctx, by, agentID, thumbprint); err != nil {
		return k, err
	}
	gap := time.Until(k.Since)
	if gap > maxClockGap {
		return k, fmt.Errorf("key %s was enrolled by a server whose clock is %s ahead: %w", thumbprint, gap, store.ErrUnavailable)
	}
	return k, sleep.For(ctx, gap)
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
