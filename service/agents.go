package service

import (
	"context"
	"errors"

	"attestd/store"
)

// Agents are those of companies.
type Agents struct {
	Store *store.Store
}

// Check refuses what is asked of an agent that is not registered, or disabled.
func (a *Agents) Check(ctx context.Context, by store.Caller, id string) error {
	return agentError(id, a.Store.CheckAgent(ctx, by, id))
}

// MayAct refuses what is done in the name of an agent that is disabled. The agent need not be
// registered.
func (a *Agents) MayAct(ctx context.Context, by store.Caller, id string) error {
	err := a.Store.CheckAgent(ctx, by, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return agentError(id, err)
}

// MayDelegate refuses a chain of principals in which any agent of the company is disabled: what it
// has passed on ends with it.
func (a *Agents) MayDelegate(ctx context.Context, by store.Caller, principals []string) error {
	for _, id := range principals {
		if agent, ok := by.Company.Issuer.OwnAgent(id); ok {
			if err := a.MayAct(ctx, by, agent); err != nil {
				return err
			}
		}
	}
	return nil
}

// agentError refuses what is asked of an agent that is not registered, or disabled.
func agentError(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(NotFound, "Agent not found: "+id)
	case errors.Is(err, store.ErrDisabled):
		return &Error{Kind: Forbidden, Code: "AGENT_DISABLED", Message: "Agent is disabled: " + id}
	}
	return err
}
