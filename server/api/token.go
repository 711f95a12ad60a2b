package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/crypto/cred/details"
	"attestd/crypto/strictjson"
	"attestd/server/httpapi"
	"attestd/server/stream"
	"attestd/service"
	"attestd/store"
)

// Tokens are the OAuth endpoints, which issue, introspect and revoke access tokens.
type Tokens struct {
	Store       *store.Store
	Tokens      *service.Tokens
	Federations *service.Federations
	Hub         *stream.Hub
}

// Endpoint is the token endpoint, of all companies.
func (s *Tokens) Endpoint() httpapi.Handler {
	return httpapi.Handler{Serve: s.oauthToken, Form: tokenForm}
}

// CompanyEndpoint is the same on the path of one company.
func (s *Tokens) CompanyEndpoint() httpapi.Handler {
	return httpapi.Handler{Serve: s.oauthToken, Form: tokenForm.OnPath("companyId")}
}

// tokenRequest has the parameters of RFC 6749 §4.4.2. Unknown ones are ignored (§3.2), except for
// those that ask for a more restricted token by a name that is not the RFC's.
type tokenRequest struct {
	_         struct{}        `form:"yes" refuses:"role expiresAt scopes ttl authorizationDetails" repeats:"resource audience" given:"may_act authorization_details"`
	GrantType json.RawMessage `json:"grant_type" must:"checked"`
	Scope     json.RawMessage `json:"scope"`
	Resource  json.RawMessage `json:"resource"`
	Details   json.RawMessage `json:"authorization_details"`

	ClientID      json.RawMessage `json:"client_id"`
	ClientSecret  json.RawMessage `json:"client_secret"`
	AssertionType json.RawMessage `json:"client_assertion_type"`
	Assertion     json.RawMessage `json:"client_assertion"`
	// of a workload (RFC 7523 §2.1)
	Federated json.RawMessage `json:"assertion"`
	// of an exchange (RFC 8693 §2.1)
	Subject       json.RawMessage `json:"subject_token"`
	SubjectType   json.RawMessage `json:"subject_token_type"`
	Actor         json.RawMessage `json:"actor_token"`
	ActorType     json.RawMessage `json:"actor_token_type"`
	RequestedType json.RawMessage `json:"requested_token_type"`
	Audience      json.RawMessage `json:"audience"`
	// an extension of attestd: the only agent that may act with the token (RFC 8693 §4.4)
	MayAct json.RawMessage `json:"may_act"`
}

var tokenForm = httpapi.FormOf[tokenRequest]()

// oauthToken implements the client credentials grant of RFC 6749 §4.4 to OAuth clients, and to
// agents that show that they hold a key of their own (RFC 7523). With a DPoP proof the token is
// bound to the key of that (RFC 9449 §5). It is not an endpoint, because its errors are those of
// the RFCs.
func (s *Tokens) oauthToken(c *httpapi.Call) error {
	params, err := c.OAuthParams(tokenForm)
	if err != nil {
		return err
	}
	// which would be a token that is bound to no key
	if slices.Contains(c.Header["Dpop"], "") {
		return c.OAuthError(errors.Join(service.ErrInvalidProof, errors.New("the header DPoP is empty: leave it out, or send a proof")))
	}
	switch grant, _ := httpapi.AsText(params["grant_type"]); grant {
	case "client_credentials":
	case jwtBearer:
		return s.federateByAssertion(c, params)
	case tokenExchange:
		return s.exchangeToken(c, params)
	default:
		return httpapi.Fail(http.StatusBadRequest, "unsupported_grant_type")
	}
	if !httpapi.IsAbsent(params["may_act"]) { // it would restrict nothing
		return httpapi.InvalidRequest("may_act is for the exchange of a token of the company")
	}
	by, err := c.ByClient(params, httpapi.IsClient|httpapi.IsAgent)
	if err != nil {
		return err
	}
	scope, ok := httpapi.AsText(params["scope"])
	if !ok && !httpapi.IsAbsent(params["scope"]) {
		return httpapi.InvalidScope()
	}
	limits, err := httpapi.OAuthDetails(params)
	if err != nil {
		return err
	}
	resources, ok := asTexts(params["resource"])
	if !ok {
		return c.OAuthError(service.ErrInvalidTarget)
	}
	var issuer string
	var own []string
	if len(resources) > 0 {
		if issuer, err = s.issuerOfTokens(c, by); err != nil {
			return err
		}
		own = ownResources(c, by.Company.ID)
	}
	token, err := s.Tokens.Issue(c.Context(), by, c.Once, service.TokenRequest{
		Resources: resources, Issuer: issuer, Own: own, Scope: scope, Details: limits, Proof: c.Header.Get("DPoP"), Method: c.Method, URL: c.OwnURL(),
	})
	if err != nil {
		err = c.OAuthError(err)
		c.CountRefused(err)
		return err
	}
	return s.tokenIssued(c, token, c.Client.Assertion != "", by.At)
}

// issuerOfTokens is OwnIssuer with an error in the form of RFC 6749 §5.2.
func (s *Tokens) issuerOfTokens(c *httpapi.Call, by store.Caller) (string, error) {
	issuer, err := c.OwnIssuer(by.Company.ID)
	if err != nil {
		return "", httpapi.InvalidRequest(service.ErrNoName.Error())
	}
	return issuer, nil
}

// asTexts returns a text, or the texts of an array, and none of what is absent.
func asTexts(v jsontext.Value) (texts []string, ok bool) {
	if httpapi.IsAbsent(v) {
		return nil, true
	}
	if v.Kind() == '[' {
		texts, ok = strictjson.AsStrings(v)
		return texts, ok && len(texts) > 0
	}
	text, ok := httpapi.AsText(v)
	return []string{text}, ok
}

// tokenIssued is the answer of RFC 6749 §5.1.
func (s *Tokens) tokenIssued(c *httpapi.Call, token service.Token, signedIn bool, now time.Time) error {
	c.W.Header().Set("Pragma", "no-cache")
	return c.JSON(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
		Scope       string `json:"scope,omitempty"`

		Details details.Details `json:"authorization_details,omitzero"`
	}{token.Text, kindOf(token, signedIn), int(token.Ends.Sub(now).Seconds()), string(token.Scope), token.Details})
}

// kindOf is the type of a token. The specification spells that of a client's in lower case.
func kindOf(token service.Token, signedIn bool) string {
	switch {
	case token.Bound:
		return "DPoP"
	case signedIn:
		return "Bearer"
	}
	return "bearer"
}
