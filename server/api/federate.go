package api

import (
	"errors"
	"net/http"
	"time"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

const (
	jwtBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer" // RFC 7523 §2.1
	typeIDToken = "urn:ietf:params:oauth:token-type:id_token"   // RFC 8693 §3

)

// federateByAssertion is the grant of oauthToken to a workload that presents a token of an issuer
// that a company trusts (RFC 7523).
func (s *Tokens) federateByAssertion(c *httpapi.Call, params httpapi.Object) error {
	assertion, ok := httpapi.AsText(params["assertion"])
	if !ok {
		return httpapi.InvalidRequest("assertion is required, a token of an issuer that the company trusts")
	}
	in := service.Federating{Assertion: assertion}
	if service.IsIdentityAssertion(assertion) {
		var err error
		if in.Client, err = s.presentingClient(c, params); err != nil {
			return err
		}
		in.Once = c.Once
	}
	token, now, err := s.federate(c, in, params)
	if err != nil {
		return err
	}
	return s.tokenIssued(c, token, true, now)
}

// federateByExchange is the same by token exchange; see exchangeToken.
func (s *Tokens) federateByExchange(c *httpapi.Call, params httpapi.Object) error {
	subject, ok := httpapi.AsText(params["subject_token"])
	kind, _ := httpapi.AsText(params["subject_token_type"])
	requested, _ := httpapi.AsText(params["requested_token_type"])
	switch {
	case !ok:
		return httpapi.InvalidRequest("subject_token is required, a token of an issuer that the company trusts")
	case kind != service.TokenTypeJWT && kind != typeIDToken:
		return httpapi.InvalidRequest("subject_token_type must be " + service.TokenTypeJWT + " or " + typeIDToken)
	case requested != "" && requested != service.TokenTypeAccess:
		return httpapi.InvalidRequest("requested_token_type must be " + service.TokenTypeAccess)
	case service.IsIdentityAssertion(subject):
		return httpapi.InvalidRequest("an identity assertion of a person is presented as assertion, with the grant type " + jwtBearer)
	case !httpapi.IsAbsent(params["actor_token"]) || !httpapi.IsAbsent(params["actor_token_type"]):
		return httpapi.InvalidRequest("actor_token is not accepted: the workload acts for itself")
	}
	token, now, err := s.federate(c, service.Federating{Assertion: subject}, params)
	if err != nil {
		return err
	}
	return s.tokenExchanged(c, service.ExchangedToken{Token: token, Type: service.TokenTypeAccess}, kindOf(token, true), now)
}

// presentingClient authenticates the OAuth client that presents an identity assertion of a person.
func (s *Tokens) presentingClient(c *httpapi.Call, params httpapi.Object) (store.Caller, error) {
	if c.Header.Get("Authorization") == "" && !httpapi.HasClient(params) {
		return store.Caller{}, httpapi.InvalidClient("an identity assertion is presented by the client that it names").With("WWW-Authenticate", httpapi.BasicChallenge)
	}
	by, err := c.ByClient(params, httpapi.IsClient)
	var refused *httpapi.Error
	if errors.As(err, &refused) && refused.Code == "FORBIDDEN_ROLE" {
		err = &httpapi.Error{Status: http.StatusBadRequest, Message: "unauthorized_client", Description: "an identity assertion is presented by an OAuth client, and not by an agent"}
	}
	return by, err
}

// federate issues an access token to a workload, or for a person, and returns the time of the
// request. With a DPoP proof the token is bound to the key of that.
func (s *Tokens) federate(c *httpapi.Call, in service.Federating, params httpapi.Object) (token service.Token, now time.Time, err error) {
	scope, ok := httpapi.AsText(params["scope"])
	if !ok && !httpapi.IsAbsent(params["scope"]) {
		return token, now, httpapi.InvalidScope()
	}
	if in.Details, err = httpapi.OAuthDetails(params); err != nil {
		return token, now, err
	}
	if !httpapi.IsAbsent(params["may_act"]) {
		return token, now, httpapi.InvalidRequest("may_act is for the exchange of a token of the company")
	}
	resources, ok := asTexts(params["resource"])
	if !httpapi.IsAbsent(params["audience"]) || !ok || len(resources) > 0 && c.OwnBase() == "" {
		return token, now, notForUs()
	}
	by, err := c.By(httpapi.Anonymous) // the assertion itself is the credential
	if err != nil {
		return token, now, err
	}
	in.Resources, in.Own = resources, func(companyID string) []string { return ownResources(c, companyID) }
	in.Scope, in.Proof, in.Method, in.URL = scope, c.Header.Get("DPoP"), c.Method, c.OwnURL()
	in.CompanyID = c.PathValue("companyId")
	if base := c.OwnBase(); base != "" {
		in.Issuers = base + "/o/"
	}
	token, err = s.Federations.Federate(c.Context(), in, by.At)
	if errors.Is(err, service.ErrInvalidGrant) {
		err = &httpapi.Error{Status: http.StatusBadRequest, Message: "invalid_grant", Description: service.Reason(err, service.ErrInvalidGrant)}
	}
	if errors.Is(err, service.ErrInvalidTarget) {
		err = notForUs()
	}
	return token, by.At, c.OAuthError(err)
}

func notForUs() *httpapi.Error {
	return &httpapi.Error{Status: http.StatusBadRequest, Message: "invalid_target",
		Description: "the access token is for this service alone: leave audience out, and resource too or give the one that our metadata name"}
}
