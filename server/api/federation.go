package api

import (
	"context"
	"encoding/json"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Federations are the other issuers that a company trusts.
type Federations struct {
	Federations *service.Federations
	Hub         *stream.Hub
}

type createFederationRequest struct {
	_        struct{}        `missing:"Missing or invalid field: name, issuer, audience and rules are required"`
	Name     string          `json:"name" must:"segment"`
	Issuer   string          `json:"issuer" must:"string"`
	Audience string          `json:"audience" must:"string"`
	JWKS     json.RawMessage `json:"jwks"`
	JWKSURI  *string         `json:"jwksUri" must:"given"`
	Rules    json.RawMessage `json:"rules" must:"present"`
}

// Create and the endpoints below are additions to the specification.
func (s *Federations) Create(ctx context.Context, by store.Caller, r createFederationRequest) (service.Federation, error) {
	n := service.NewFederation{Name: r.Name, Issuer: r.Issuer, Audience: r.Audience, Rules: r.Rules}
	if string(r.JWKS) != "null" {
		n.JWKS = r.JWKS
	}
	if r.JWKSURI != nil {
		n.JWKSURI = *r.JWKSURI
	}
	return s.Federations.Create(ctx, by, n)
}

func (s *Federations) List(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Federation], error) {
	return httpapi.List[service.Federation]{Name: "federations", Items: s.Federations.List(ctx, by)}, nil
}

// federationRequest is a request about the federation in the path.
type federationRequest struct {
	Name string `path:"name"`
}

func (s *Federations) Get(ctx context.Context, by store.Caller, r federationRequest) (service.Federation, error) {
	return s.Federations.Get(ctx, by, r.Name)
}

// Delete also ends what its workloads have opened.
func (s *Federations) Delete(ctx context.Context, by store.Caller, r federationRequest) (deletion, error) {
	err := s.Federations.Delete(ctx, by, r.Name)
	s.Hub.End("federation:" + r.Name) // even if the outcome is unknown
	return deletion{err == nil}, err
}
