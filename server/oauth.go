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
}

// createOAuthClient creates a client with a secret, or, as an addition to the specification, one
// that signs assertions with keys of its own.
func (s *Server) createOAuthClient(ctx context.Context, by store.Caller, r createClientRequest) (clientCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return clientCreated{}, err
	}
	var client store.OAuthClient
	var secret string
	if r.JWKS == nil {
		client, secret, err = s.Store.Credentials.CreateClient(ctx, by, grant, s.Bounds.Clients)
	} else {
		var jwks string
		if jwks, err = service.ParseClientKeys(r.JWKS); err != nil {
			return clientCreated{}, err
		}
		client, err = s.Store.Credentials.CreateKeyClient(ctx, by, grant, jwks, s.Bounds.Clients)
	}
	if errors.Is(err, store.ErrTooMany) {
		return clientCreated{}, service.TooMany("OAuth clients", s.Bounds.Clients)
	}
	return clientCreated{client.ID, secret, by.Company.ID, client.CreatedAt}, err
}

type clientBody struct {
	ClientID  string `json:"clientId"`
	CreatedAt string `json:"createdAt"`
}

func (s *Server) listOAuthClients(ctx context.Context, by store.Caller, _ none) (list[clientBody], error) {
	show := func(c store.OAuthClient) clientBody { return clientBody{c.ID, c.CreatedAt} }
	return list[clientBody]{name: "clients", items: service.Map(s.Store.Credentials.Clients(ctx, by), show)}, nil
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
	return deletion{err == nil}, err
}
