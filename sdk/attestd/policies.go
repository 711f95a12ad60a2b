package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"attestd/chain/decision"
)

// Decision is what a record says was decided of it, by which policies and on what. Its verdict is
// one of the constants below.
type Decision = decision.Decision

// The verdicts.
const (
	Allow = decision.Allow
	Deny  = decision.Deny
	Ask   = decision.Ask // it is allowed with an approval
)

// Policy is a text in Cedar that decides what agents may do. A text may have several policies: they
// are ID#0, ID#1 and so on in decisions.
type Policy struct {
	ID          string `json:"policyId"`
	Cedar       string `json:"cedar"` // byte for byte as it was put
	SHA256      string `json:"sha256"`
	Description string `json:"description,omitempty"`
	PutAt       string `json:"putAt"`
	PutBy       string `json:"putBy,omitempty"` // fingerprint of the credential
}

// PolicySet is the policies of a company that are in force, by ID.
type PolicySet struct {
	Policies []Policy `json:"policies"`
	SHA256   string   `json:"sha256"`   // names the set, as decisions do
	Revision int64    `json:"revision"` // how often it has changed
}

// Policies returns the policies that are in force.
func (c *Client) Policies(ctx context.Context) (s PolicySet, err error) {
	err = c.get(ctx, "/v1/policies", nil, &s)
	return s, err
}

// Policy returns one policy.
func (c *Client) Policy(ctx context.Context, id string) (p Policy, err error) {
	err = c.get(ctx, "/v1/policies/{policyId}", nil, &p, id)
	return p, err
}

// NewPolicy is the request to put a policy in force.
type NewPolicy struct {
	Cedar       string // at most 64 KiB
	Description string // for people
	Force       bool   // it may name what does not exist
}

// PutPolicy puts a policy in the place of one with its ID, which has 1 to 64 of A-Z, a-z, 0-9, ., _
// and -. Line and Column of an *Error name the mistake in a text that is refused.
func (c *Client) PutPolicy(ctx context.Context, id string, n NewPolicy) (p Policy, err error) {
	body := map[string]string{"cedar": n.Cedar}
	if n.Description != "" {
		body["description"] = n.Description
	}
	text, err := json.Marshal(body)
	if err != nil {
		return p, err
	}
	r := request{method: http.MethodPut, route: "/v1/policies/{policyId}", path: []string{id}, body: text, status: http.StatusOK, safe: true}
	if n.Force {
		r.query = url.Values{"force": {"true"}}
	}
	err = c.do(ctx, r, &p)
	return p, err
}

// DeletePolicy deletes a policy. Without any, everything is allowed.
func (c *Client) DeletePolicy(ctx context.Context, id string) error {
	return c.delete(ctx, "/v1/policies/{policyId}", id)
}

// PolicyText is a policy that is tried.
type PolicyText struct {
	ID    string `json:"policyId"`
	Cedar string `json:"cedar"`
}

// PolicyTrial is what is decided again, and by which policies: those in force without Remove and
// with Draft.
type PolicyTrial struct {
	Policies []PolicyText `json:"policies,omitzero"` // in place of those in force
	Draft    *PolicyText  `json:"draft,omitempty"`
	Remove   []string     `json:"remove,omitempty"` // IDs
	From     int64        `json:"from,omitempty"`   // the first record, by index
	To       int64        `json:"to,omitempty"`     // the first that is not decided; 0 is the end
	AgentID  string       `json:"agentId,omitempty"`
	Limit    int          `json:"limit,omitempty"` // of decisions: 1 to 10,000; 0 is 1,000
}

// PolicyTried is what other policies would have decided.
type PolicyTried struct {
	Decided   int                `json:"decided"`
	Different []PolicyDifference `json:"different"`
	Next      *int64             `json:"next"` // from where to go on; nil at the end
}

// PolicyDifference is a record that would have been decided otherwise.
type PolicyDifference struct {
	Index   int64    `json:"index"`
	Was     *string  `json:"was"` // nil where nothing decided of it
	Becomes string   `json:"becomes"`
	By      []string `json:"by"`
}

// TestPolicies decides again what is on record, by other policies, and changes nothing. One call
// takes seconds at most: go on at Next.
func (c *Client) TestPolicies(ctx context.Context, t PolicyTrial) (tried PolicyTried, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return tried, err
	}
	err = c.do(ctx, request{method: http.MethodPost, route: "/v1/policies/test", body: text, status: http.StatusOK, safe: true}, &tried)
	return tried, err
}
