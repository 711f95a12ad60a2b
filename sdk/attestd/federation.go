package attestd

import (
	"context"
	"encoding/json"
	"net/http"
)

// NewFederation is an issuer that the company is to trust for one audience. The issuer's keys are
// in JWKS, at JWKSURI, or with neither where its metadata say.
type NewFederation struct {
	Name     string           `json:"name"`
	Issuer   string           `json:"issuer"`
	Audience string           `json:"audience"`
	JWKS     json.RawMessage  `json:"jwks,omitempty"`
	JWKSURI  string           `json:"jwksUri,omitempty"`
	Rules    []FederationRule `json:"rules"`
}

// FederationRule says which agent the workloads are whose claims match. A value of Match is a
// string, perhaps with *, a bool or a whole number.
type FederationRule struct {
	Match    map[string]any `json:"match"`
	AgentID  string         `json:"agentId"`         // {claim} is replaced with that claim's value
	Scope    string         `json:"scope,omitempty"` // agent
	TTL      int            `json:"ttl,omitempty"`   // seconds; 0 is 3600
	Register bool           `json:"register,omitempty"`
}

// Federation is an issuer that the company trusts.
type Federation struct {
	NewFederation
	CreatedAt string `json:"createdAt"`
	Keys      struct {
		Count     int    `json:"count"`     // that can be used
		FetchedAt string `json:"fetchedAt"` // "" for keys that are not fetched, or were not yet
		Failure   string `json:"failure"`   // of the last attempt
	} `json:"keys"`
}

// CreateFederation makes the company trust an issuer.
func (c *Client) CreateFederation(ctx context.Context, n NewFederation) (f Federation, err error) {
	err = c.post(ctx, "/v1/federation", http.StatusCreated, n, &f)
	return f, err
}

// Federations lists the issuers that the company trusts.
func (c *Client) Federations(ctx context.Context) ([]Federation, error) {
	var answer struct{ Federations []Federation }
	err := c.get(ctx, "/v1/federation", nil, &answer)
	return answer.Federations, err
}

// Federation returns one of them.
func (c *Client) Federation(ctx context.Context, name string) (f Federation, err error) {
	err = c.get(ctx, "/v1/federation/{name}", nil, &f, name)
	return f, err
}

// DeleteFederation ends the trust, and the access tokens that came of it.
func (c *Client) DeleteFederation(ctx context.Context, name string) error {
	return c.delete(ctx, "/v1/federation/{name}", name)
}
