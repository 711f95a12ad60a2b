package server

import (
	"context"
	"encoding/json"

	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// federations are the other issuers that a company trusts.
type federations struct {
	federations *service.Federations
	hub         *stream.Hub
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

// createFederation and the endpoints below are additions to the specification.
func (s *federations) createFederation(ctx context.Context, by store.Caller, r createFederationRequest) (service.Federation, error) {
	n := service.NewFederation{Name: r.Name, Issuer: r.Issuer, Audience: r.Audience, Rules: r.Rules}
	if string(r.JWKS) != "null" {
		n.JWKS = r.JWKS
	}
	if r.JWKSURI != nil {
		n.JWKSURI = *r.JWKSURI
	}
	return s.federations.Create(ctx, by, n)
}

func (s *federations) listFederations(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Federation], error) {
	return httpapi.List[service.Federation]{Name: "federations", Items: s.federations.List(ctx, by)}, nil
}

// federationRequest is a request about the federation in the path.
type federationRequest struct {
	Name string `path:"name"`
}

func (s *federations) getFederation(ctx context.Context, by store.Caller, r federationRequest) (service.Federation, error) {
	return s.federations.Get(ctx, by, r.Name)
}

// deleteFederation also ends what its workloads have opened.
func (s *federations) deleteFederation(ctx context.Context, by store.Caller, r federationRequest) (deletion, error) {
	err := s.federations.Delete(ctx, by, r.Name)
	s.hub.End("federation:" + r.Name) // even if the outcome is unknown
	return deletion{err == nil}, err
}
