package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"attestd/chain"
	"attestd/store"
)

// Policy says what may be recorded in an agent's name, or with an AgentID of "" in that of any.
type Policy struct {
	AgentID string  `json:"agentId,omitempty"`
	Attest  string  `json:"attest"`
	DryRun  *DryRun `json:"dryRun,omitempty"`
}

// DryRun is what a policy would have refused of the last day, had it been in force.
type DryRun struct {
	Since    string         `json:"since"`
	Records  int64          `json:"records"`  // that were looked at
	Refused  int64          `json:"refused"`  // of those, in the agents' names without a statement
	Complete bool           `json:"complete"` // whether Records are all since then
	Agents   []RefusedAgent `json:"agents"`   // with the most of them first; at most 100
}

// RefusedAgent is an agent in whose name a policy would have refused records.
type RefusedAgent struct {
	AgentID string `json:"agentId"`
	Refused int64  `json:"refused"`
}

const (
	dryRunOf      = 24 * time.Hour
	maxDryRun     = 1_000_000 // records of it
	dryRunBatch   = 1000      // records that are read at once: an append waits for no long read
	maxDryRunList = 100
)

// SetPolicy sets the policy of an agent, or with "" that of the company.
func (a *AgentKeys) SetPolicy(ctx context.Context, by store.Caller, agentID, attest string) (Policy, error) {
	err := a.Store.Policies.Set(ctx, by, agentID, attest)
	return Policy{AgentID: agentID, Attest: attest}, agentError(agentID, err)
}

// TryPolicy changes nothing, and counts what a policy would have refused of the last day.
func (a *AgentKeys) TryPolicy(ctx context.Context, by store.Caller, agentID, attest string) (Policy, error) {
	if agentID != "" {
		if _, err := a.Store.Agents.Get(ctx, by, agentID); err != nil {
			return Policy{}, agentError(agentID, err)
		}
	}
	number := by.Company.Actions.Chain
	since := chain.FormatTime(by.At.Add(-dryRunOf))
	head, _, err := a.Store.Tip(ctx, number)
	if err != nil {
		return Policy{}, err
	}
	from, err := a.Store.SizeAt(ctx, number, head.Length, since)
	if err != nil {
		return Policy{}, err
	}
	first := max(from, head.Length-maxDryRun)
	found := &DryRun{Since: since, Complete: first == from, Agents: []RefusedAgent{}}
	refused := map[string]int64{}
	for at := first; at < head.Length; at += dryRunBatch {
		err := a.Store.Records(ctx, number, at, min(at+dryRunBatch, head.Length), func(r *chain.Record) error {
			if r.IsPruned() { // whose it was is unknown
				found.Complete = false
				return nil
			}
			var said struct{ AgentID, Statement string }
			if err := json.Unmarshal(r.Payload, &said); err != nil {
				return fmt.Errorf("%w: record %d: %w", store.ErrCorrupt, r.Index, err)
			}
			found.Records++
			if attest == store.AttestKey && said.Statement == "" && (agentID == "" || agentID == said.AgentID) {
				refused[said.AgentID]++
				found.Refused++
			}
			return nil
		})
		if err != nil {
			return Policy{}, err
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(refused)) {
		found.Agents = append(found.Agents, RefusedAgent{agent, refused[agent]})
	}
	slices.SortStableFunc(found.Agents, func(x, y RefusedAgent) int { return cmp.Compare(y.Refused, x.Refused) })
	found.Agents = found.Agents[:min(len(found.Agents), maxDryRunList)]
	return Policy{AgentID: agentID, Attest: attest, DryRun: found}, nil
}
