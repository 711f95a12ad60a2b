package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"attestd/store"
)

func (s *Server) registerAgent(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	id, err := o.segment("agentId")
	if err != nil {
		return err
	}
	metadata, err := o.metadata()
	if err != nil {
		return err
	}
	agent, err := s.Store.RegisterAgent(c.Context(), c.company, id, metadata, c.now)
	if err != nil {
		return err
	}
	spiffeID := c.company.Issuer.AgentID(id)
	return c.secret(http.StatusCreated, struct {
		AgentID      string `json:"agentId"`
		SPIFFEID     string `json:"spiffeId"`
		SVID         string `json:"svid"`
		RegisteredAt string `json:"registeredAt"`
	}{id, spiffeID, c.company.Issuer.SVID(spiffeID, c.now), agent.RegisteredAt})
}

// agent finds the agent of the path.
func (c *call) agent() (store.Agent, error) { return c.agentNamed(c.PathValue("agentId")) }

func (c *call) agentNamed(id string) (store.Agent, error) {
	agent, err := c.s.Store.Agent(c.Context(), c.company, id, c.now)
	if errors.Is(err, store.ErrNotFound) {
		return agent, fail(http.StatusNotFound, "Agent not found: "+id)
	}
	return agent, err
}

type agentBody struct {
	AgentID      string          `json:"agentId"`
	SPIFFEID     string          `json:"spiffeId"`
	CompanyID    string          `json:"companyId"`
	RegisteredAt string          `json:"registeredAt"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
}

func (c *call) agentBody(a store.Agent) agentBody {
	return agentBody{a.ID, c.company.Issuer.AgentID(a.ID), c.company.ID, a.RegisteredAt, a.Metadata}
}

func (s *Server) getAgent(c *call) error {
	agent, err := c.agent()
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, c.agentBody(agent))
}

func (s *Server) agentSVID(c *call) error {
	agent, err := c.agent()
	if err != nil {
		return err
	}
	id := c.company.Issuer.AgentID(agent.ID)
	return c.secret(http.StatusOK, struct {
		AgentID  string `json:"agentId"`
		SPIFFEID string `json:"spiffeId"`
		SVID     string `json:"svid"`
	}{agent.ID, id, c.company.Issuer.SVID(id, c.now)})
}

// listAgents is an addition to the specification: a page of agents ordered by ID. Its cursor is the last agentId.
func (s *Server) listAgents(c *call) error {
	limit, err := c.number("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	found, err := s.Store.Agents(c.Context(), c.company, c.query("cursor"), int(limit)+1)
	if err != nil {
		return err
	}
	page := struct {
		Agents []agentBody `json:"agents"`
		Next   string      `json:"next,omitempty"`
	}{Agents: []agentBody{}}
	for i, a := range found {
		if i == int(limit) { // one more was asked for than is shown, to know whether there is a next page
			page.Next = found[i-1].ID
			break
		}
		page.Agents = append(page.Agents, c.agentBody(a))
	}
	return c.json(http.StatusOK, page)
}
