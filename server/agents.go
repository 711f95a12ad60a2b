package server

import (
	"context"
	"encoding/json"
	"net/http"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// agents are the agents of a company.
type agents struct{ agents *service.Agents }

type registerAgentRequest struct {
	AgentID     string          `json:"agentId" must:"segment"`
	Metadata    json.RawMessage `json:"metadata" must:"object"`
	IfNoneMatch string          `header:"If-None-Match"`
}

func (s *agents) registerAgent(
	ctx context.Context, by store.Caller, r registerAgentRequest,
) (service.RegisteredAgent, error) {
	if r.IfNoneMatch != "" && r.IfNoneMatch != "*" {
		return service.RegisteredAgent{}, httpapi.Fail(http.StatusBadRequest,
			"Invalid header: If-None-Match must be *, which demands that the agent is new")
	}
	return s.agents.Register(ctx, by, r.AgentID, r.Metadata, r.IfNoneMatch == "*")
}

// agentRequest asks for the agent of the path.
type agentRequest struct {
	AgentID string `path:"agentId"`
}

func (s *agents) getAgent(ctx context.Context, by store.Caller, r agentRequest) (service.Agent, error) {
	return s.agents.Get(ctx, by, r.AgentID)
}

// disableAgent is an addition to the specification.
func (s *agents) disableAgent(ctx context.Context, by store.Caller, r agentRequest) (service.DisabledAgent, error) {
	return s.agents.Disable(ctx, by, r.AgentID)
}

// enableAgent is an addition to the specification.
func (s *agents) enableAgent(ctx context.Context, by store.Caller, r agentRequest) (service.Agent, error) {
	return s.agents.Enable(ctx, by, r.AgentID)
}

type agentsRequest struct {
	Limit  int    `query:"limit" must:"number 1..1000" default:"100"`
	Cursor string `query:"cursor"`
	Text   string `query:"q"`
	Status string `query:"status" must:"oneof active disabled"`
}

// listAgents is an addition to the specification: a page of agents ordered by ID, with their total.
// Its cursor is the last agentId.
func (s *agents) listAgents(ctx context.Context, by store.Caller, r agentsRequest) (httpapi.List[service.Agent], error) {
	if len(r.Text) > 128 { // no agentId is longer
		return httpapi.List[service.Agent]{}, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: q must have at most 128 bytes")
	}
	found, total, err := s.agents.List(ctx, by, store.AgentFilter{Text: r.Text, Status: r.Status}, r.Cursor)
	return httpapi.List[service.Agent]{
		Name: "agents", Items: found, Total: &total,
		Most: r.Limit, Next: func(a service.Agent) string { return a.AgentID },
	}, err
}
