package attestd

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"slices"
)

// NewAgent is what an agent is registered with.
type NewAgent struct {
	AgentID  string          `json:"agentId"`            // 1 to 128 of A-Z, a-z, 0-9, ., _ and -
	Metadata json.RawMessage `json:"metadata,omitempty"` // an object; replaces what was there
	// an agent that is registered is left as it is: 412
	OnlyNew bool `json:"-"`
}

// Agent is an agent of the company.
type Agent struct {
	AgentID      string          `json:"agentId"`
	SPIFFEID     string          `json:"spiffeId"`
	CompanyID    string          `json:"companyId,omitempty"`
	SVID         string          `json:"svid,omitempty"` // in the answer to the registration alone
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

// AgentFilter says which agents are looked for: those for which all of it holds. What is empty is
// not asked.
type AgentFilter struct {
	Text   string // within the ID, in either case
	Status string // active or disabled
}

// Agents returns the company's agents, ordered by their ID, reading them page by page.
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

// Disabling says how many passports were revoked with an agent.
type Disabling struct {
	AgentID          string `json:"agentId"`
	DisabledAt       string `json:"disabledAt"`
	RevokedPassports int    `json:"revokedPassports"`
}

// DisableAgent takes from an agent the right to act, and revokes its passports.
func (c *Client) DisableAgent(ctx context.Context, agentID string) (d Disabling, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/disable", http.StatusOK, nil, &d, agentID)
	return d, err
}

// EnableAgent lets an agent act again. What was revoked stays revoked.
func (c *Client) EnableAgent(ctx context.Context, agentID string) (a Agent, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/enable", http.StatusOK, nil, &a, agentID)
	return a, err
}

// AgentSVID returns a fresh SVID of an agent.
func (c *Client) AgentSVID(ctx context.Context, agentID string) (s SVID, err error) {
	err = c.get(ctx, "/v1/agents/{agentId}/svid", nil, &s, agentID)
	return s, err
}

// pageQuery asks for a page of a list; filters are names, each before its value. What is empty is
// left out.
func pageQuery(cursor string, filters ...string) url.Values {
	q := url.Values{"limit": {"1000"}}
	for given := range slices.Chunk(append(filters, "cursor", cursor), 2) {
		if given[1] != "" {
			q.Set(given[0], given[1])
		}
	}
	return q
}

// pages yields what stands on all pages. An error is the last that is yielded.
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
