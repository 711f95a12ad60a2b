package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"attestd/service"
	"attestd/store"
)

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
func (s *Server) createOAuthClient(ctx context.Context, by store.Caller, r createClientRequest) (clientCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return clientCreated{}, err
	}
	client, secret, err := s.tokens.CreateClient(ctx, by,
		service.NewClient{Grant: grant, JWKS: r.JWKS, JWKSURI: r.JWKSURI, Most: s.live.Load().Bounds.Clients})
	return clientCreated{client.ID, secret, by.Company.ID, client.CreatedAt}, err
}

func (s *Server) listOAuthClients(ctx context.Context, by store.Caller, _ none) (list[service.Client], error) {
	return list[service.Client]{name: "clients", items: s.tokens.Clients(ctx, by)}, nil
}

type deleteClientRequest struct {
	ClientID string `path:"clientId"`
}

// deleteOAuthClient is an addition to the specification. It also deletes the client's tokens, and
// ends the streams opened with them.
func (s *Server) deleteOAuthClient(ctx context.Context, by store.Caller, r deleteClientRequest) (deletion, error) {
	fingerprint, err := s.Store.Credentials.DeleteClient(ctx, by, r.ClientID)
	if errors.Is(err, store.ErrNotFound) {
		return deletion{}, fail(http.StatusNotFound, "OAuth client not found")
	}
	s.hub.End(fingerprint) // even if the outcome is unknown
	// and those of agents for whom the client has presented a person's assertion
	_ = s.hub.Recheck(by.Company.Chain) // those that could not be looked up are again, in time
	return deletion{err == nil}, err
}
