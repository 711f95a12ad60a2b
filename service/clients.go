package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/idtoken"
	"attestd/store"
)

// Presented is what an OAuth client, or an agent with a key of its own, shows at an OAuth endpoint
// to say who it is: its secret (RFC 6749 §2.3.1), or an assertion (RFC 7523).
type Presented struct {
	ClientID, Secret string // beside an assertion, ClientID is "" or its subject
	Assertion        string
	Audiences        []string // of an assertion: each is us
}

// ErrInvalidClient reports that what was presented is no good. Of an assertion the reason is its
// text; see Reason.
var ErrInvalidClient = errors.New("invalid_client")

// Reason is the text beside one of the errors of Tokens, or "".
func Reason(err, kind error) string {
	if joined, is := err.(interface{ Unwrap() []error }); is && joined.Unwrap()[0] == kind {
		return joined.Unwrap()[1].Error()
	}
	return ""
}

// Authenticate returns who presents itself, and what counts once of what it has presented: whoever
// acts on that must use it up. An error is ErrInvalidClient or ErrKeysPending where the other side
// is at fault. It says nothing of which clients, agents and keys there are, except of a client
// whose key set cannot be fetched.
func (t *Tokens) Authenticate(ctx context.Context, p Presented, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	if p.Assertion != "" {
		return t.authenticateByAssertion(ctx, p, now)
	}
	by, err = t.Store.Credentials.AuthenticateClient(ctx, p.ClientID, p.Secret, now)
	if errors.Is(err, store.ErrBadClient) {
		err = ErrInvalidClient
	}
	return by, nil, err
}

func (t *Tokens) authenticateByAssertion(ctx context.Context, p Presented, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	said, err := assertion.Parse(p.Assertion)
	if err != nil {
		return by, nil, refusedClient(err)
	}
	if p.ClientID != "" && p.ClientID != said.Subject {
		return by, nil, refusedClient(errors.New("client_id is not the sub of client_assertion"))
	}
	if !said.IsAgent() {
		return t.authenticateByClientKey(ctx, said, p.Audiences, now)
	}
	companyID, agentID, ok := t.Store.Domain().SplitAgentID(said.Subject)
	if !ok {
		return by, nil, refusedClient(errors.New("client_assertion is of no agent of this trust domain"))
	}
	company, err := t.Store.Companies.Get(ctx, companyID)
	if err != nil {
		return by, nil, unknownAgent(err)
	}
	by = store.Caller{Company: company, Role: store.ActsAsAgent, Agent: agentID, Key: said.KeyID, At: now}
	key, err := t.Keys.live(ctx, by, agentID, said.KeyID)
	if err == nil {
		err = t.Store.Agents.Check(ctx, by, agentID)
	}
	if err == nil {
		var own store.AgentKey
		own, err = t.Store.AgentKeys.Live(ctx, by, agentID, said.KeyID)
		by.Expires, by.HolderExpires = own.ExpiresAt, own.ExpiresAt
	}
	if err != nil {
		return by, nil, unknownAgent(err)
	}
	if err := said.Check(key.Public, p.Audiences, now); err != nil {
		return by, nil, refusedClient(err)
	}
	return by, usedAssertion(said.KeyID, said), nil
}

// authenticateByClientKey requires that an assertion is signed by a key of the client (RFC 7523).
func (t *Tokens) authenticateByClientKey(ctx context.Context, said *assertion.Assertion, audiences []string, now time.Time) (by store.Caller, once []store.UsedProof, err error) {
	by, has, err := t.Store.Credentials.ClientKeys(ctx, said.Subject, now)
	if errors.Is(err, store.ErrBadClient) {
		err = refusedClient(assertion.ErrNoClientKey)
	}
	if err == nil {
		err = t.withClientKeys(ctx, by, has, func(set *idtoken.KeySet) error { return said.CheckClient(set, audiences, now) })
	}
	if err != nil {
		return store.Caller{}, nil, err
	}
	return by, usedAssertion(said.Subject, said), nil
}

// usedAssertion names an assertion by whose it is and its jti, for as long as it would be accepted.
func usedAssertion(holder string, said *assertion.Assertion) []store.UsedProof {
	return []store.UsedProof{{
		Name: sha256.Sum256([]byte("client assertion\n" + holder + "\n" + said.ID)), Ends: said.Ends,
	}}
}

func refusedClient(why error) error { return errors.Join(ErrInvalidClient, why) }

// unknownAgent refuses an agent that is not there, is disabled or has no such key, in one way.
func unknownAgent(err error) error {
	if slices.ContainsFunc([]error{store.ErrNotFound, store.ErrDisabled}, func(e error) bool { return errors.Is(err, e) }) {
		return refusedClient(errors.New("client_assertion is signed with no live key of an agent"))
	}
	return err
}
