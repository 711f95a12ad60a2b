package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/crypto/assertion"
	"attestd/service"
	"attestd/store"
)

const oauthLifetime = time.Hour

type clientCreated struct {
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	CompanyID    string `json:"companyId"`
	CreatedAt    string `json:"createdAt"`
}

type createClientRequest struct {
	Role      store.Role `json:"role" must:"role" default:"admin"`
	ExpiresAt time.Time  `json:"expiresAt" must:"time"`
}

func (s *Server) createOAuthClient(ctx context.Context, by store.Caller, r createClientRequest) (clientCreated, error) {
	grant, err := newGrant(r.Role, r.ExpiresAt, by.At)
	if err != nil {
		return clientCreated{}, err
	}
	client, secret, err := s.Store.Credentials.CreateClient(ctx, by, grant, s.Bounds.Clients)
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

// oauthToken implements the client credentials grant of RFC 6749 §4.4. It is not an endpoint,
// because its errors are those of the RFC.
func oauthToken(c *call) error {
	params, err := c.tokenParams()
	if err != nil {
		return err
	}
	if params.grant != "client_credentials" {
		return fail(http.StatusBadRequest, "unsupported_grant_type")
	}
	if params.assertion != "" || params.assertionType != "" {
		return c.signIn(params)
	}
	id, secret, basic, err := c.clientCredentials(params)
	if err != nil {
		return err
	}
	if err := c.reauthenticate(); err != nil {
		return err
	}
	token, ends, err := c.s.Store.Credentials.IssueToken(c.Context(), id, secret, oauthLifetime, c.caller.At)
	if errors.Is(err, store.ErrBadClient) {
		denied := fail(http.StatusUnauthorized, "invalid_client")
		if basic { // RFC 6749 §5.2: the attempted scheme must be named
			denied.with("WWW-Authenticate", `Basic realm="oauth", charset="UTF-8"`)
		}
		return denied
	}
	if err != nil {
		return err
	}
	return c.tokenIssued(token, "bearer", ends)
}

// tokenIssued is the answer of RFC 6749 §5.1.
func (c *call) tokenIssued(token, kind string, ends time.Time) error {
	c.w.Header().Set("Pragma", "no-cache")
	return c.json(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
	}{token, kind, int(ends.Sub(c.caller.At).Seconds())})
}

// signIn is the grant of oauthToken to an agent that shows that it holds a key of its own (RFC
// 7523). With a DPoP proof the token is bound to that key (RFC 9449 §5).
func (c *call) signIn(params tokenParams) error {
	switch {
	case params.assertionType != assertion.Type || params.assertion == "":
		return invalidClient("client_assertion goes with client_assertion_type " + assertion.Type)
	case params.clientSecret != "" || c.Header.Get("Authorization") != "":
		return invalidRequest("an agent presents client_assertion alone")
	}
	if err := c.reauthenticate(); err != nil {
		return err
	}
	in := service.SigningIn{
		Assertion: params.assertion, Proof: c.Header.Get("DPoP"), Method: c.Method, URL: c.s.urlOf(c.Request),
		Audiences: []string{c.s.urlOf(c.Request), c.s.Store.Domain().Issuer()}, ClientID: params.clientID,
	}
	token, ends, err := c.s.agentKeys.SignIn(c.Context(), in, oauthLifetime, c.caller.At)
	switch {
	case errors.Is(err, service.ErrInvalidClient):
		return invalidClient(reasonOf(err, service.ErrInvalidClient))
	case errors.Is(err, service.ErrInvalidProof):
		return &apiError{Status: http.StatusBadRequest, Message: "invalid_dpop_proof", Description: reasonOf(err, service.ErrInvalidProof)}
	case err != nil:
		return err
	}
	kind := "Bearer"
	if in.Proof != "" {
		kind = "DPoP"
	}
	return c.tokenIssued(token, kind, ends)
}

func invalidClient(why string) *apiError {
	return &apiError{Status: http.StatusUnauthorized, Message: "invalid_client", Description: why}
}

// reasonOf is the text of what stands beside one of the errors of SignIn.
func reasonOf(err, kind error) string {
	return strings.TrimPrefix(err.Error(), kind.Error()+"\n")
}

// tokenRequest has the parameters of RFC 6749 §4.4.2 and §2.3.1. Unknown ones are ignored (§3.2),
// except for those that ask for a more restricted token than the client gets, which always has the
// client's role.
type tokenRequest struct {
	_            struct{}        `form:"yes" refuses:"role expiresAt scopes ttl"`
	GrantType    json.RawMessage `json:"grant_type" must:"checked"`
	ClientID     json.RawMessage `json:"client_id"`
	ClientSecret json.RawMessage `json:"client_secret"`
	// of an agent that signs in with a key of its own (RFC 7523 §2.2)
	AssertionType json.RawMessage `json:"client_assertion_type"`
	Assertion     json.RawMessage `json:"client_assertion"`
}

var tokenForm = formOf[tokenRequest]()

type tokenParams struct{ grant, clientID, clientSecret, assertionType, assertion string }

func invalidRequest(why string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_request", Description: why}
}

// tokenParams parses a form or a JSON object according to the Content-Type, because some bodies are
// valid as both.
func (c *call) tokenParams() (p tokenParams, err error) {
	raw, err := c.read()
	if err != nil {
		return p, err
	}
	var o object
	switch mediaType(c.Header) {
	case formEncoded:
		o, err = tokenForm.parseForm(raw, c.undeclared)
	case "application/json":
		o, err = tokenForm.parseBody(raw, c.undeclared)
	default:
		return p, invalidRequest("Content-Type must be " + formEncoded + " or application/json")
	}
	if err != nil {
		return p, invalidRequest(err.Error())
	}
	p.grant, _ = asText(o["grant_type"])
	p.clientID, _ = asText(o["client_id"])
	p.clientSecret, _ = asText(o["client_secret"])
	p.assertionType, _ = asText(o["client_assertion_type"])
	p.assertion, _ = asText(o["client_assertion"])
	return p, nil
}

// clientCredentials returns the client's ID and secret from the body or from HTTP Basic, never from
// both.
func (c *call) clientCredentials(p tokenParams) (id, secret string, basic bool, err error) {
	if c.Header.Get("Authorization") == "" || c.claimed {
		if p.clientID == "" || p.clientSecret == "" {
			return "", "", false, invalidRequest("client_id and client_secret are required")
		}
		return p.clientID, p.clientSecret, false, nil
	}
	user, password, ok := c.BasicAuth()
	if !ok {
		return "", "", false, invalidRequest("the Authorization header is neither Basic nor Bearer")
	}
	if p.clientSecret != "" {
		return "", "", false, invalidRequest("client credentials are given both in the body and by HTTP Basic")
	}
	// RFC 6749 §2.3.1: both are form-encoded inside Basic.
	id, idErr := url.QueryUnescape(user)
	secret, secretErr := url.QueryUnescape(password)
	switch {
	case idErr != nil || secretErr != nil || id == "" || secret == "":
		return "", "", true, invalidRequest("client_id and client_secret are required")
	case p.clientID != "" && p.clientID != id:
		return "", "", true, invalidRequest("client_id in the body is not the one of HTTP Basic")
	}
	return id, secret, true, nil
}
