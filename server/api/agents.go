// Package api has the resources of the HTTP API. Each is a small type with the fields that it
// needs. Its methods do the work of its routes, which package server lists in one table. It may
// import service, store, jobs and httpapi, and never package server. A newcomer begins with Agents
// in this file.
package api

import (
	"context"
	"encoding/json"
	"net/http"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Agents are the agents of a company.
type Agents struct{ Agents *service.Agents }

type registerAgentRequest struct {
	AgentID     string          `json:"agentId" must:"segment"`
	Metadata    json.RawMessage `json:"metadata" must:"object"`
	IfNoneMatch string          `header:"If-None-Match"`
}

func (s *Agents) Register(
	ctx context.Context, by store.Caller, r registerAgentRequest,
) (service.RegisteredAgent, error) {
	if r.IfNoneMatch != "" && r.IfNoneMatch != "*" {
		return service.RegisteredAgent{}, httpapi.Fail(http.StatusBadRequest,
			"Invalid header: If-None-Match must be *, which demands that the agent is new")
	}
	return s.Agents.Register(ctx, by, r.AgentID, r.Metadata, r.IfNoneMatch == "*")
}

// agentRequest asks for the agent of the path.
type agentRequest struct {
	AgentID string `path:"agentId"`
}

func (s *Agents) Get(ctx context.Context, by store.Caller, r agentRequest) (service.Agent, error) {
	return s.Agents.Get(ctx, by, r.AgentID)
}

// Disable is an addition to the specification.
func (s *Agents) Disable(ctx context.Context, by store.Caller, r agentRequest) (service.DisabledAgent, error) {
	return s.Agents.Disable(ctx, by, r.AgentID)
}

// Enable is an addition to the specification.
func (s *Agents) Enable(ctx context.Context, by store.Caller, r agentRequest) (service.Agent, error) {
	return s.Agents.Enable(ctx, by, r.AgentID)
}

type agentsRequest struct {
	Limit  int    `query:"limit" must:"number 1..1000" default:"100"`
	Cursor string `query:"cursor"`
	Text   string `query:"q"`
	Status string `query:"status" must:"oneof active disabled"`
}

// List is an addition to the specification: a page of agents ordered by ID, with their total.
// Its cursor is the last agentId.
func (s *Agents) List(ctx context.Context, by store.Caller, r agentsRequest) (httpapi.List[service.Agent], error) {
	if len(r.Text) > 128 { // no agentId is longer
		return httpapi.List[service.Agent]{}, httpapi.Fail(http.StatusBadRequest, "Invalid query parameter: q must have at most 128 bytes")
	}
	found, total, err := s.Agents.List(ctx, by, store.AgentFilter{Text: r.Text, Status: r.Status}, r.Cursor)
	return httpapi.List[service.Agent]{
		Name: "agents", Items: found, Total: &total,
		Most: r.Limit, Next: func(a service.Agent) string { return a.AgentID },
	}, err
}
