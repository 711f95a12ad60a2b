package attestd

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
)

// NewAgent is the request to register an agent.
type NewAgent struct {
	AgentID  string          `json:"agentId"`            // 1 to 128 of A-Z, a-z, 0-9, ., _ and -
	Metadata json.RawMessage `json:"metadata,omitempty"` // an object; replaces what was there
	// OnlyNew makes the request fail with 412, without effect, if the agent is registered.
	OnlyNew bool `json:"-"`
}

// Agent is an agent of the company.
type Agent struct {
	AgentID      string          `json:"agentId"`
	SPIFFEID     string          `json:"spiffeId"`
	CompanyID    string          `json:"companyId,omitempty"`
	SVID         string          `json:"svid,omitempty"` // only in the response to the registration
	RegisteredAt string          `json:"registeredAt"`
	DisabledAt   string          `json:"disabledAt,omitempty"` // while it is disabled
	Metadata     json.RawMessage `json:"metadata,omitempty"`
}

// RegisterAgent registers an agent and returns it with its first SVID.
func (c *Client) RegisterAgent(ctx context.Context, n NewAgent) (a Agent, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return a, err
	}
	r := request{method: http.MethodPost, route: "/v1/agents/register", body: body, status: http.StatusCreated}
	if n.OnlyNew {
		r.header = http.Header{"If-None-Match": {"*"}}
	}
	err = c.do(ctx, r, &a)
	return a, err
}

// AgentFilter selects the agents that match all its fields. An empty field matches all agents.
type AgentFilter struct {
	Text   string // contained in the ID, ignoring case
	Status string // active or disabled
}

// Agents returns the company's agents, ordered by ID. It fetches one page at a time.
func (c *Client) Agents(ctx context.Context, f AgentFilter) iter.Seq2[Agent, error] {
	return pages(func(cursor string) ([]Agent, string, error) {
		var page struct {
			Agents []Agent
			Next   string
		}
		err := c.get(ctx, "/v1/agents", pageQuery(cursor, "q", f.Text, "status", f.Status), &page)
		return page.Agents, page.Next, err
	})
}

// Agent returns one agent.
func (c *Client) Agent(ctx context.Context, agentID string) (a Agent, err error) {
	err = c.get(ctx, "/v1/agents/{agentId}", nil, &a, agentID)
	return a, err
}

// Disabling is the result of disabling an agent: the number of revoked passports.
type Disabling struct {
	AgentID          string `json:"agentId"`
	DisabledAt       string `json:"disabledAt"`
	RevokedPassports int    `json:"revokedPassports"`
}

// DisableAgent disables an agent and revokes its passports.
func (c *Client) DisableAgent(ctx context.Context, agentID string) (d Disabling, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/disable", http.StatusOK, nil, &d, agentID)
	return d, err
}

// EnableAgent enables an agent. Revoked passports remain revoked.
func (c *Client) EnableAgent(ctx context.Context, agentID string) (a Agent, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/enable", http.StatusOK, nil, &a, agentID)
	return a, err
}

// AgentSVID returns a new SVID of an agent.
func (c *Client) AgentSVID(ctx context.Context, agentID string) (s SVID, err error) {
	err = c.get(ctx, "/v1/agents/{agentId}/svid", nil, &s, agentID)
	return s, err
}

// pageQuery returns the query for a page of a list. filters alternates names and values; empty
// values are omitted.
func pageQuery(cursor string, filters ...string) url.Values {
	q := url.Values{"limit": {"1000"}}
	for given := range slices.Chunk(append(filters, "cursor", cursor), 2) {
		if given[1] != "" {
			q.Set(given[0], given[1])
		}
	}
	return q
}

// pages yields the entries of all pages. An error ends the sequence.
func pages[T any](page func(cursor string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for cursor := ""; ; {
			items, next, err := page(cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	}
}
