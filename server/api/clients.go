package api

import (
	"context"
	"encoding/json"
	"time"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Clients are the OAuth clients of a company.
type Clients struct {
	Tokens *service.Tokens
	Hub    *stream.Hub
	Most   func() int // how many a company may have
}

type clientCreated struct {
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret,omitempty"`
	CompanyID    string `json:"companyId"`
	CreatedAt    string `json:"createdAt"`
}

type createClientRequest struct {
	Role      store.Role      `json:"role" must:"role" default:"admin"`
	ExpiresAt time.Time       `json:"expiresAt" must:"time"`
	JWKS      json.RawMessage `json:"jwks" must:"object"`
	JWKSURI   *string         `json:"jwksUri" must:"given"`
}

// Create creates a client with a secret, or, as an addition to the specification, one that signs
// assertions with its own keys.
func (s *Clients) Create(ctx context.Context, by store.Caller, r createClientRequest) (clientCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return clientCreated{}, err
	}
	client, secret, err := s.Tokens.CreateClient(ctx, by,
		service.NewClient{Grant: grant, JWKS: r.JWKS, JWKSURI: r.JWKSURI, Most: s.Most()})
	return clientCreated{client.ID, secret, by.Company.ID, client.CreatedAt}, err
}

func (s *Clients) List(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Client], error) {
	return httpapi.List[service.Client]{Name: "clients", Items: s.Tokens.Clients(ctx, by)}, nil
}

type deleteClientRequest struct {
	ClientID string `path:"clientId"`
}

// Delete is an addition to the specification. It also deletes the client's tokens, and
// ends the streams opened with them.
func (s *Clients) Delete(ctx context.Context, by store.Caller, r deleteClientRequest) (deletion, error) {
	fingerprint, err := s.Tokens.DeleteClient(ctx, by, r.ClientID)
	if fingerprint == "" {
		return deletion{}, err
	}
	s.Hub.End(fingerprint) // even if the outcome is unknown
	// and those of agents for whom the client has presented a person's assertion
	_ = s.Hub.Recheck(by.Company.Chain) // those that could not be looked up are again, in time
	return deletion{err == nil}, err
}
