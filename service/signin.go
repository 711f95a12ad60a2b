package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"attestd/crypto/assertion"
	"attestd/crypto/dpop"
	"attestd/store"
)

// SigningIn is what an agent presents to sign in with a key of its own (RFC 7523).
type SigningIn struct {
	Assertion string
	ClientID  string   // beside it; "" or its subject
	Audiences []string // each is us
	Proof     string   // DPoP: the token is bound to its key; "" for a bearer token
	URL       string   // to which it was sent
	Method    string
}

var (
	// ErrInvalidClient reports that an assertion is no good; the reason is its text.
	ErrInvalidClient = errors.New("invalid_client")
	// ErrInvalidProof reports that the DPoP proof beside it is none.
	ErrInvalidProof = errors.New("invalid_dpop_proof")
)

// SignIn issues an access token to an agent that shows that it holds one of its keys, with its
// lifetime. An error is ErrInvalidClient or ErrInvalidProof where the agent is at fault, and
// says nothing of which agents and keys there are.
func (a *AgentKeys) SignIn(ctx context.Context, in SigningIn, lifetime time.Duration, now time.Time) (token string, ends time.Time, err error) {
	said, err := assertion.Parse(in.Assertion)
	if err != nil {
		return "", time.Time{}, refusedClient(err)
	}
	if in.ClientID != "" && in.ClientID != said.Subject {
		return "", time.Time{}, refusedClient(errors.New("client_id is not the sub of client_assertion"))
	}
	companyID, agentID, ok := a.Store.Domain().SplitAgentID(said.Subject)
	if !ok {
		return "", time.Time{}, refusedClient(errors.New("client_assertion is of no agent of this trust domain"))
	}
	company, err := a.Store.Companies.Get(ctx, companyID)
	if err != nil {
		return "", time.Time{}, unknownAgent(err)
	}
	by := store.Caller{Company: company, Role: store.ActsAsAgent, Agent: agentID, At: now}
	key, err := a.live(ctx, by, agentID, said.KeyID)
	if err == nil {
		err = a.Store.Agents.Check(ctx, by, agentID)
	}
	if err != nil {
		return "", time.Time{}, unknownAgent(err)
	}
	if err := said.Check(key, in.Audiences, now); err != nil {
		return "", time.Time{}, refusedClient(err)
	}
	signIn := store.SignIn{AgentID: agentID, Thumbprint: said.KeyID, Bound: in.Proof != "", Proofs: []store.UsedProof{{
		Name: sha256.Sum256([]byte("client assertion\n" + said.KeyID + "\n" + said.ID)), Ends: said.Ends,
	}}}
	if in.Proof != "" {
		proof, err := dpop.Check(in.Proof, dpop.Request{Method: in.Method, URL: in.URL}, said.KeyID, now)
		if err != nil {
			return "", time.Time{}, errors.Join(ErrInvalidProof, err)
		}
		signIn.Proofs = append(signIn.Proofs, UsedProof(&proof))
	}
	token, ends, err = a.Store.Credentials.IssueAgentToken(ctx, by, signIn, lifetime)
	switch {
	case errors.Is(err, store.ErrUsed):
		err = refusedClient(errors.New("client_assertion, or the DPoP proof beside it, was used before"))
	case errors.Is(err, store.ErrNotFound):
		err = unknownAgent(err)
	}
	return token, ends, err
}

// UsedProof names a DPoP proof for as long as it would be accepted.
func UsedProof(p *dpop.Proof) store.UsedProof {
	return store.UsedProof{
		Name: sha256.Sum256([]byte("DPoP\n" + p.Key.Thumbprint + "\n" + p.ID)),
		Ends: p.IssuedAt.Add(dpop.Window + time.Second),
	}
}

func refusedClient(why error) error { return errors.Join(ErrInvalidClient, why) }

// unknownAgent refuses an agent that is not there, is disabled or has no such key, in one way.
func unknownAgent(err error) error {
	if slices.ContainsFunc([]error{store.ErrNotFound, store.ErrDisabled}, func(e error) bool { return errors.Is(err, e) }) {
		return refusedClient(errors.New("client_assertion is signed with no live key of an agent"))
	}
	return err
}
