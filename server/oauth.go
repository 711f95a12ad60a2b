package server

import (
	"context"
	"encoding/json"
	"time"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// clients are the OAuth clients of a company.
type clients struct {
	tokens *service.Tokens
	hub    *stream.Hub
	bounds func() Bounds
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

// createOAuthClient creates a client with a secret, or, as an addition to the specification, one
// that signs assertions with keys of its own.
func (s *clients) createOAuthClient(ctx context.Context, by store.Caller, r createClientRequest) (clientCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return clientCreated{}, err
	}
	client, secret, err := s.tokens.CreateClient(ctx, by,
		service.NewClient{Grant: grant, JWKS: r.JWKS, JWKSURI: r.JWKSURI, Most: s.bounds().Clients})
	return clientCreated{client.ID, secret, by.Company.ID, client.CreatedAt}, err
}

func (s *clients) listOAuthClients(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Client], error) {
	return httpapi.List[service.Client]{Name: "clients", Items: s.tokens.Clients(ctx, by)}, nil
}

type deleteClientRequest struct {
	ClientID string `path:"clientId"`
}

// deleteOAuthClient is an addition to the specification. It also deletes the client's tokens, and
// ends the streams opened with them.
func (s *clients) deleteOAuthClient(ctx context.Context, by store.Caller, r deleteClientRequest) (deletion, error) {
	fingerprint, err := s.tokens.DeleteClient(ctx, by, r.ClientID)
	if fingerprint == "" {
		return deletion{}, err
	}
	s.hub.End(fingerprint) // even if the outcome is unknown
	// and those of agents for whom the client has presented a person's assertion
	_ = s.hub.Recheck(by.Company.Chain) // those that could not be looked up are again, in time
	return deletion{err == nil}, err
}
