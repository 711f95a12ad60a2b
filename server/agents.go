package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"attestd/service"
	"attestd/store"
)

type registerAgentRequest struct {
	AgentID     string          `json:"agentId" must:"segment"`
	Metadata    json.RawMessage `json:"metadata" must:"object"`
	IfNoneMatch string          `header:"If-None-Match"`
}

type agentRegistered struct {
	AgentID      string `json:"agentId"`
	SPIFFEID     string `json:"spiffeId"`
	SVID         string `json:"svid"`
	RegisteredAt string `json:"registeredAt"`
}

func (s *Server) registerAgent(ctx context.Context, by store.Caller, r registerAgentRequest) (agentRegistered, error) {
	if r.IfNoneMatch != "" && r.IfNoneMatch != "*" {
		return agentRegistered{}, fail(http.StatusBadRequest, "Invalid header: If-None-Match must be *, which demands that the agent is new")
	}
	bounds := store.AgentBounds{New: r.IfNoneMatch == "*", Most: s.Bounds.Agents}
	agent, err := s.Store.RegisterAgent(ctx, by, r.AgentID, r.Metadata, bounds)
	switch {
	case errors.Is(err, store.ErrExists):
		return agentRegistered{}, fail(http.StatusPreconditionFailed, "Agent is registered already: "+r.AgentID)
	case errors.Is(err, store.ErrTooMany):
		return agentRegistered{}, tooMany("agents", s.Bounds.Agents)
	case err != nil:
		return agentRegistered{}, agentError(r.AgentID, err)
	}
	spiffeID := by.Company.Issuer.AgentID(agent.ID)
	return agentRegistered{agent.ID, spiffeID, by.Company.Issuer.SVID(spiffeID, by.At), agent.RegisteredAt}, nil
}

// agentError is the answer to what is asked of an agent that is not registered, or disabled.
func agentError(id string, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return fail(http.StatusNotFound, "Agent not found: "+id)
	case errors.Is(err, store.ErrDisabled):
		return &apiError{Status: http.StatusForbidden, Code: "AGENT_DISABLED", Message: "Agent is disabled: " + id}
	}
	return err
}

// tooMany is the answer where a company has as many of something as it may.
func tooMany(what string, most int) error {
	return &apiError{Status: http.StatusConflict, Code: "TOO_MANY", Message: fmt.Sprintf("The company has %d %s, the most that this server allows", most, what)}
}

// agentRequest asks for the agent of the path.
type agentRequest struct {
	AgentID string `path:"agentId"`
}

type agentBody struct {
	AgentID      string          `json:"agentId"`
	SPIFFEID     string          `json:"spiffeId"`
	CompanyID    string          `json:"companyId"`
	RegisteredAt string          `json:"registeredAt"`
	DisabledAt   string          `json:"disabledAt,omitempty"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
}

func newAgentBody(company *store.Company, a store.Agent) agentBody {
	return agentBody{a.ID, company.Issuer.AgentID(a.ID), company.ID, a.RegisteredAt, a.DisabledAt, a.Metadata}
}

func (s *Server) getAgent(ctx context.Context, by store.Caller, r agentRequest) (agentBody, error) {
	agent, err := s.Store.Agent(ctx, by, r.AgentID)
	if err != nil {
		return agentBody{}, agentError(r.AgentID, err)
	}
	return newAgentBody(by.Company, agent), nil
}

type agentSVIDBody struct {
	AgentID  string `json:"agentId"`
	SPIFFEID string `json:"spiffeId"`
	SVID     string `json:"svid"`
}

func (s *Server) agentSVID(ctx context.Context, by store.Caller, r agentRequest) (agentSVIDBody, error) {
	if err := s.Store.Changeable(by); err != nil {
		return agentSVIDBody{}, err
	}
	if err := s.agents.Check(ctx, by, r.AgentID); err != nil {
		return agentSVIDBody{}, err
	}
	id := by.Company.Issuer.AgentID(r.AgentID)
	return agentSVIDBody{r.AgentID, id, by.Company.Issuer.SVID(id, by.At)}, nil
}

type agentDisabled struct {
	AgentID          string `json:"agentId"`
	DisabledAt       string `json:"disabledAt"`
	RevokedPassports int64  `json:"revokedPassports"`
}

// disableAgent is an addition to the specification. From its answer on, nothing is issued to the
// agent and nothing recorded in its name.
func (s *Server) disableAgent(ctx context.Context, by store.Caller, r agentRequest) (agentDisabled, error) {
	agent, revoked, err := s.Store.DisableAgent(ctx, by, r.AgentID)
	if err != nil {
		return agentDisabled{}, agentError(r.AgentID, err)
	}
	return agentDisabled{agent.ID, agent.DisabledAt, revoked}, nil
}

// enableAgent is an addition to the specification.
func (s *Server) enableAgent(ctx context.Context, by store.Caller, r agentRequest) (agentBody, error) {
	agent, err := s.Store.EnableAgent(ctx, by, r.AgentID)
	if err != nil {
		return agentBody{}, agentError(r.AgentID, err)
	}
	return newAgentBody(by.Company, agent), nil
}

type agentsRequest struct {
	Limit  int    `query:"limit" must:"number 1..1000" default:"100"`
	Cursor string `query:"cursor"`
	Text   string `query:"q"`
	Status string `query:"status" must:"oneof active disabled"`
}

// listAgents is an addition to the specification: a page of agents ordered by ID, and how many
// there are. Its cursor is the last agentId.
func (s *Server) listAgents(ctx context.Context, by store.Caller, r agentsRequest) (list[agentBody], error) {
	if len(r.Text) > 128 { // no agentId is longer
		return list[agentBody]{}, fail(http.StatusBadRequest, "Invalid query parameter: q must have at most 128 bytes")
	}
	filter := store.AgentFilter{Text: r.Text, Status: r.Status}
	total, err := s.Store.CountAgents(ctx, by, filter)
	if err != nil {
		return list[agentBody]{}, err
	}
	show := func(a store.Agent) agentBody { return newAgentBody(by.Company, a) }
	return list[agentBody]{
		name: "agents", items: service.Map(s.Store.Agents(ctx, by, filter, r.Cursor), show), total: &total,
		most: r.Limit, next: func(a agentBody) string { return a.AgentID },
	}, nil
}
