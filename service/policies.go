package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"attestd/chain"
	"attestd/store"
)

// Policy says what may be recorded in an agent's name, or with an AgentID of "" in that of any.
type Policy struct {
	AgentID string `json:"agentId,omitempty"`
	Attest  string `json:"attest,omitempty"`
	// of a company, for which tokens may be exchanged
	ExchangeAudiences *[]string `json:"exchangeAudiences,omitempty"`
	Decisions         string    `json:"decisions,omitempty"` // of a company, which become records
	Changes           string    `json:"changes,omitempty"`   // of a company, who may change rights
	Groups            *[]string `json:"groups,omitempty"`    // of an agent, where they are named
	DryRun            *DryRun   `json:"dryRun,omitempty"`
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

// The bounds of an agent's groups.
const (
	maxGroups    = 100
	maxGroupName = 64
)

// SetPolicy changes the members of an agent's policy that the change names, and returns those.
func (a *AgentKeys) SetPolicy(ctx context.Context, by store.Caller, agentID string, change store.AgentChange) (Policy, error) {
	now := Policy{AgentID: agentID, Attest: change.Attest}
	if change.Groups != nil {
		sorted := slices.Sorted(slices.Values(change.Groups))
		if change.Groups = slices.Compact(sorted); change.Groups == nil {
			change.Groups = []string{}
		}
		if err := checkGroups(change.Groups); err != nil {
			return Policy{}, err
		}
		now.Groups = &change.Groups
	}
	return now, agentError(agentID, a.Store.Policies.Set(ctx, by, agentID, change))
}

func checkGroups(groups []string) error {
	for _, name := range groups {
		if !isName(name) {
			return &Error{Kind: Invalid, Pointer: "/groups", Message: fmt.Sprintf("Invalid field: groups must have 1 to %d of A-Z a-z 0-9 . _ - each", maxGroupName)}
		}
	}
	if len(groups) > maxGroups {
		return &Error{Kind: Invalid, Pointer: "/groups", Message: fmt.Sprintf("Invalid field: groups must be at most %d", maxGroups)}
	}
	return nil
}

// The audiences of exchanges that a company names: so many, and so many bytes of all.
const (
	maxExchangeAudiences    = 64
	maxExchangeAudienceText = 16 << 10
)

// SetCompanyPolicy changes the policy of the company.
func (a *AgentKeys) SetCompanyPolicy(ctx context.Context, by store.Caller, change store.CompanyChange) (Policy, error) {
	if err := checkExchangeAudiences(change.ExchangeAudiences); err != nil {
		return Policy{}, err
	}
	now, err := a.Store.Policies.SetCompany(ctx, by, change)
	if err != nil {
		return Policy{}, err
	}
	named := now.ExchangeAudiences
	if named == nil {
		named = []string{}
	}
	return Policy{Attest: now.Attest, ExchangeAudiences: &named, Decisions: now.Decisions, Changes: now.Changes}, nil
}

// checkExchangeAudiences requires https URLs as of a resource, and names of another form. What
// begins like such a URL is one: a name that looks like it would never match.
func checkExchangeAudiences(audiences []string) error {
	wrong := func(what string) error {
		return &Error{Kind: Invalid, Message: "Invalid field: exchangeAudiences " + what, Pointer: "/exchangeAudiences"}
	}
	size := 0
	known := map[string]bool{}
	for _, audience := range audiences {
		size += len(audience)
		isURL := strings.HasPrefix(strings.ToLower(audience), "https:")
		switch {
		case !isVisible(audience) || len(audience) > maxResourceSize:
			return wrong(fmt.Sprintf("must have 1 to %d visible ASCII characters each", maxResourceSize))
		case isURL && checkResources([]string{audience}) != nil:
			return wrong("must be, where they are https URLs, absolute and without a fragment or a password")
		case known[audience]:
			return wrong("must be different")
		}
		known[audience] = true
	}
	if len(audiences) > maxExchangeAudiences || size > maxExchangeAudienceText {
		return wrong(fmt.Sprintf("must be at most %d, of %d bytes together", maxExchangeAudiences, maxExchangeAudienceText))
	}
	return nil
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
			var body struct{ AgentID, Statement string }
			if err := json.Unmarshal(r.Payload, &body); err != nil {
				return fmt.Errorf("%w: record %d: %w", store.ErrCorrupt, r.Index, err)
			}
			found.Records++
			if attest == store.AttestKey && body.Statement == "" && (agentID == "" || agentID == body.AgentID) {
				refused[body.AgentID]++
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
