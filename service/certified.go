package service

import (
	"context"
	"time"

	"attestd/store"
)

// Certified returns the caller that is the agent of a SPIFFE ID, which a certificate has shown. It
// returns store.ErrNotFound for an ID of another trust domain, or of no agent, and
// store.ErrDisabled.
func (a *Agents) Certified(ctx context.Context, id string, expires, now time.Time) (store.Caller, error) {
	companyID, agentID, ok := a.Store.Domain().SplitAgentID(id)
	if !ok {
		return store.Caller{}, store.ErrNotFound
	}
	company, err := a.Store.Companies.Get(ctx, companyID)
	if err != nil {
		return store.Caller{}, err
	}
	by := store.Caller{
		Company: company, Credential: "x509-svid:" + agentID, Role: store.ActsAsAgent, Agent: agentID, Expires: expires, HolderExpires: expires, At: now,
	}
	if err := a.Store.Agents.Check(ctx, by, agentID); err != nil {
		return store.Caller{}, err
	}
	return by, nil
}
