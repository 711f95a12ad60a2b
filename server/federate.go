package server

import (
	"errors"
	"net/http"
	"time"

	"attestd/service"
	"attestd/store"
)

const (
	jwtBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 §2.1
	typeIDToken = "urn:ietf:params:oauth:token-type:id_token"   // RFC 8693 §3

)

// federateByAssertion is the grant of oauthToken to a workload that presents a token of an issuer
// that a company trusts (RFC 7523).
func (s *tokens) federateByAssertion(c *call, params object) error {
	assertion, ok := asText(params["assertion"])
	if !ok {
		return invalidRequest("assertion is required, a token of an issuer that the company trusts")
	}
	in := service.Federating{Assertion: assertion}
	if service.IsIdentityAssertion(assertion) {
		var err error
		if in.Client, err = s.presentingClient(c, params); err != nil {
			return err
		}
		in.Once = c.once
	}
	token, now, err := s.federate(c, in, params)
	if err != nil {
		return err
	}
	return s.tokenIssued(c, token, true, now)
}

// federateByExchange is the same by token exchange; see exchangeToken.
func (s *tokens) federateByExchange(c *call, params object) error {
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
	token, now, err := s.federate(c, service.Federating{Assertion: subject}, params)
	if err != nil {
		return err
	}
	return s.tokenExchanged(c, service.ExchangedToken{Token: token, Type: service.TokenTypeAccess}, kindOf(token, true), now)
}

// presentingClient authenticates the OAuth client that presents an identity assertion of a person.
func (s *tokens) presentingClient(c *call, params object) (store.Caller, error) {
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
func (s *tokens) federate(c *call, in service.Federating, params object) (token service.Token, now time.Time, err error) {
	scope, ok := asText(params["scope"])
	if !ok && !isAbsent(params["scope"]) {
		return token, now, invalidScope()
	}
	if !isAbsent(params["may_act"]) {
		return token, now, invalidRequest("may_act is for the exchange of a token of the company")
	}
	resources, ok := asTexts(params["resource"])
	if !isAbsent(params["audience"]) || !ok || len(resources) > 0 && c.ownBase() == "" {
		return token, now, notForUs()
	}
	by, err := c.by(nobody) // whoever has the assertion
	if err != nil {
		return token, now, err
	}
	in.Resources, in.Own = resources, func(companyID string) []string { return ownResources(c, companyID) }
	in.Scope, in.Proof, in.Method, in.URL = scope, c.Header.Get("DPoP"), c.Method, c.ownURL()
	in.CompanyID = c.PathValue("companyId")
	if base := c.ownBase(); base != "" {
		in.Issuers = base + "/o/"
	}
	token, err = s.federations.Federate(c.Context(), in, by.At)
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
