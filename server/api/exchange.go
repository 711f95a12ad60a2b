package api

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"time"

	"attestd/crypto/cred/details"
	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

const tokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693 §2.1

// exchangeToken is the token exchange of RFC 8693. A client or an agent of the company exchanges a
// token of the company; any caller exchanges a token of an issuer that the company trusts.
func (s *Tokens) exchangeToken(c *httpapi.Call, params httpapi.Object) error {
	if !s.isOwnToken(c, params) {
		return s.federateByExchange(c, params)
	}
	by, err := s.exchangingCaller(c, params)
	if err != nil {
		return err
	}
	r, err := exchangeOf(params)
	if err != nil {
		return err
	}
	r.Proof, r.Method, r.URL = c.Header.Get("DPoP"), c.Method, c.OwnURL()
	if r.Issuer, err = s.issuerOfTokens(c, by); err != nil {
		return err
	}
	token, err := s.Tokens.Exchange(c.Context(), by, r)
	switch {
	case errors.Is(err, service.ErrInvalidExchange):
		return httpapi.InvalidRequest(service.Reason(err, service.ErrInvalidExchange))
	case errors.Is(err, service.ErrMayNotExchange):
		return mayNotExchange()
	case errors.Is(err, service.ErrInvalidScope):
		return &httpapi.Error{Status: http.StatusBadRequest, Message: "invalid_scope",
			Description: cmp.Or(service.Reason(err, service.ErrInvalidScope), "scope must be a part of the scope of subject_token")}
	case err != nil:
		return c.OAuthError(err)
	}
	kind := "N_A" // no access token (RFC 8693 §2.2.1)
	if token.Type == service.TokenTypeAccess {
		kind = kindOf(token.Token, true)
	}
	return s.tokenExchanged(c, token, kind, by.At)
}

// tokenExchanged is the answer of RFC 8693 §2.2.1.
func (s *Tokens) tokenExchanged(c *httpapi.Call, token service.ExchangedToken, kind string, now time.Time) error {
	c.W.Header().Set("Pragma", "no-cache")
	return c.JSON(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		IssuedType  string `json:"issued_token_type"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`

		Details details.Details `json:"authorization_details,omitzero"`
	}{token.Text, token.Type, kind, int(token.Ends.Sub(now).Seconds()), string(token.Scope), token.Details})
}

// isOwnToken reports whether a subject token says that it is of the company that is asked. Nothing
// of it is checked yet. A token of another company of this service is one of another issuer.
func (s *Tokens) isOwnToken(c *httpapi.Call, params httpapi.Object) bool {
	if kind, _ := httpapi.AsText(params["subject_token_type"]); kind == service.TokenTypeAccess {
		return true
	}
	subject, _ := httpapi.AsText(params["subject_token"])
	iss, aud := service.UnverifiedIssuer(subject)
	base := c.OwnBase() + "/o/"
	company, ofIssuer := strings.CutPrefix(iss, base)
	switch asked := c.PathValue("companyId"); {
	case iss == s.Store.Domain().Issuer():
		return true
	case asked != "":
		return ofIssuer && company == asked
	}
	return ofIssuer && (aud == iss || !strings.HasPrefix(aud, base))
}

// exchangingCaller authenticates who exchanges, and answers for an access token or API key, too, in
// the form of RFC 6749 §5.2.
func (s *Tokens) exchangingCaller(c *httpapi.Call, params httpapi.Object) (store.Caller, error) {
	by, err := c.ByClientOrToken(params)
	var refused *httpapi.Error
	switch {
	case c.Client != nil:
		return by, err
	case errors.As(err, &refused) && refused.Code == "FORBIDDEN_ROLE":
		return by, mayNotExchange()
	}
	return by, httpapi.NotTheClient(err)
}

func mayNotExchange() error {
	return &httpapi.Error{Status: http.StatusBadRequest, Message: "unauthorized_client", Description: "an exchange needs an agent, or a client of the role admin"}
}

// exchangeOf reads the parameters of RFC 8693 §2.1.
func exchangeOf(params httpapi.Object) (r service.ExchangeRequest, err error) {
	for name, into := range map[string]*string{
		"subject_token": &r.Subject, "subject_token_type": &r.SubjectType, "actor_token": &r.Actor, "actor_token_type": &r.ActorType,
		"requested_token_type": &r.RequestedType, "scope": &r.Scope, "may_act": &r.MayAct,
	} {
		text, ok := httpapi.AsText(params[name])
		if !ok && !httpapi.IsAbsent(params[name]) {
			return r, httpapi.InvalidRequest(name + " must be a text that is not empty")
		}
		*into = text
	}
	if r.Details, err = httpapi.OAuthDetails(params); err != nil {
		return r, err
	}
	var ok1, ok2 bool
	r.Resources, ok1 = asTexts(params["resource"])
	r.Audiences, ok2 = asTexts(params["audience"])
	switch {
	case !ok1 || !ok2:
		return r, &httpapi.Error{Status: http.StatusBadRequest, Message: "invalid_target", Description: "resource and audience must be texts"}
	case r.Subject == "":
		return r, httpapi.InvalidRequest("subject_token is required")
	case (r.Actor == "") != (r.ActorType == ""):
		return r, httpapi.InvalidRequest("actor_token and actor_token_type go together")
	}
	return r, nil
}
