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
func (s *Server) createFederation(ctx context.Context, by store.Caller, r createFederationRequest) (service.Federation, error) {
	n := service.NewFederation{Name: r.Name, Issuer: r.Issuer, Audience: r.Audience, Rules: r.Rules}
	if string(r.JWKS) != "null" {
		n.JWKS = r.JWKS
	}
	if r.JWKSURI != nil {
		n.JWKSURI = *r.JWKSURI
	}
	return s.federations.Create(ctx, by, n)
}

func (s *Server) listFederations(ctx context.Context, by store.Caller, _ none) (list[service.Federation], error) {
	return list[service.Federation]{name: "federations", items: s.federations.List(ctx, by)}, nil
}

// federationRequest is a request about the federation in the path.
type federationRequest struct {
	Name string `path:"name"`
}

func (s *Server) getFederation(ctx context.Context, by store.Caller, r federationRequest) (service.Federation, error) {
	return s.federations.Get(ctx, by, r.Name)
}

// deleteFederation also ends what its workloads have opened.
func (s *Server) deleteFederation(ctx context.Context, by store.Caller, r federationRequest) (deletion, error) {
	err := s.federations.Delete(ctx, by, r.Name)
	s.hub.End("federation:" + r.Name) // even if the outcome is unknown
	return deletion{err == nil}, err
}

const (
	jwtBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 §2.1
	typeIDToken = "urn:ietf:params:oauth:token-type:id_token"   // RFC 8693 §3

	// keysPending is how many seconds until an issuer's keys are probably there
	keysPending = "2"
)

// federateByAssertion is the grant of oauthToken to a workload that presents a token of an issuer
// that a company trusts (RFC 7523).
func (c *call) federateByAssertion(params object) error {
	assertion, ok := asText(params["assertion"])
	if !ok {
		return invalidRequest("assertion is required, a token of an issuer that the company trusts")
	}
	in := service.Federating{Assertion: assertion}
	if service.IsIdentityAssertion(assertion) {
		var err error
		if in.Client, err = c.presentingClient(params); err != nil {
			return err
		}
		in.Once = c.once
	}
	token, now, err := c.federate(in, params)
	if err != nil {
		return err
	}
	return c.tokenIssued(token, true, now)
}

// federateByExchange is the same by token exchange; see exchangeToken.
func (c *call) federateByExchange(params object) error {
	subject, ok := asText(params["subject_token"])
	kind, _ := asText(params["subject_token_type"])
	requested, _ := asText(params["requested_token_type"])
	switch {
	case !ok:
		return invalidRequest("subject_token is required, a token of an issuer that the company trusts")
	case kind != service.TokenTypeJWT && kind != typeIDToken:
		return invalidRequest("subject_token_type must be " + service.TokenTypeJWT + " or " + typeIDToken)
	case requested != "" && requested != service.TokenTypeAccess:
		return invalidRequest("requested_token_type must be " + service.TokenTypeAccess)
	case service.IsIdentityAssertion(subject):
		return invalidRequest("an identity assertion of a person is presented as assertion, with the grant type " + jwtBearer)
	case !isAbsent(params["actor_token"]) || !isAbsent(params["actor_token_type"]):
		return invalidRequest("actor_token is not accepted: the workload acts for itself")
	}
	token, now, err := c.federate(service.Federating{Assertion: subject}, params)
	if err != nil {
		return err
	}
	return c.tokenExchanged(service.ExchangedToken{Token: token, Type: service.TokenTypeAccess}, kindOf(token, true), now)
}

// presentingClient authenticates the OAuth client that presents an identity assertion of a person.
func (c *call) presentingClient(params object) (store.Caller, error) {
	if c.Header.Get("Authorization") == "" && !hasClient(params) {
		return store.Caller{}, invalidClient("an identity assertion is presented by the client that it names").with("WWW-Authenticate", basicChallenge)
	}
	by, err := c.byClient(params, isClient)
	var refused *apiError
	if errors.As(err, &refused) && refused.Code == "FORBIDDEN_ROLE" {
		err = &apiError{Status: http.StatusBadRequest, Message: "unauthorized_client", Description: "an identity assertion is presented by an OAuth client, and not by an agent"}
	}
	return by, err
}

// federate issues an access token to a workload, or for a person, and returns the time of the
// request. With a DPoP proof the token is bound to the key of that.
func (c *call) federate(in service.Federating, params object) (token service.Token, now time.Time, err error) {
	scope, ok := asText(params["scope"])
	if !ok && !isAbsent(params["scope"]) {
		return token, now, invalidScope()
	}
	if !isAbsent(params["may_act"]) {
		return token, now, invalidRequest("may_act is for the exchange of a token of the company")
	}
	resources, ok := asTexts(params["resource"])
	if !isAbsent(params["audience"]) || !ok || len(resources) > 0 && c.s.ownBase(c.Request) == "" {
		return token, now, notForUs()
	}
	by, err := c.by(nobody) // whoever has the assertion
	if err != nil {
		return token, now, err
	}
	in.Resources, in.Own = resources, c.ownResources
	in.Scope, in.Proof, in.Method, in.URL = scope, c.Header.Get("DPoP"), c.Method, c.s.ownURL(c.Request)
	in.CompanyID = c.PathValue("companyId")
	if base := c.s.ownBase(c.Request); base != "" {
		in.Issuers = base + "/o/"
	}
	token, err = c.s.federations.Federate(c.Context(), in, by.At)
	if errors.Is(err, service.ErrInvalidGrant) {
		err = &apiError{Status: http.StatusBadRequest, Message: "invalid_grant", Description: service.Reason(err, service.ErrInvalidGrant)}
	}
	if errors.Is(err, service.ErrInvalidTarget) {
		err = notForUs()
	}
	return token, by.At, c.oauthError(err)
}

func notForUs() *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_target",
		Description: "the access token is for this service alone: leave audience out, and resource too or give the one that our metadata name"}
}
