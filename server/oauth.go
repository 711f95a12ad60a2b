package server

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"time"

	"attestd/store"
)

const oauthLifetime = time.Hour

func (s *Server) createOAuthClient(c *call) error {
	client, secret, err := s.Store.CreateOAuthClient(c.Context(), c.company, c.now)
	if err != nil {
		return err
	}
	return c.secret(http.StatusCreated, struct {
		ClientID     string `json:"clientId"`
		ClientSecret string `json:"clientSecret"`
		CompanyID    string `json:"companyId"`
		CreatedAt    string `json:"createdAt"`
	}{client.ID, secret, c.company.ID, client.CreatedAt})
}

func (s *Server) listOAuthClients(c *call) error {
	clients, err := s.Store.OAuthClients(c.Context(), c.company)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, map[string]any{"clients": list(clients)})
}

// oauthToken is the client credentials grant of RFC 6749 §4.4. It speaks the RFC's errors, not the API's.
func (s *Server) oauthToken(c *call) error {
	params, err := c.tokenParams()
	if err != nil {
		return err
	}
	if params.grant != "client_credentials" {
		return fail(http.StatusBadRequest, "unsupported_grant_type")
	}
	id, secret, basic, err := c.clientCredentials(params)
	if err != nil {
		return err
	}
	token, err := s.Store.IssueOAuthToken(c.Context(), id, secret, oauthLifetime, c.now)
	if errors.Is(err, store.ErrBadClient) {
		denied := fail(http.StatusUnauthorized, "invalid_client")
		if basic { // RFC 6749 §5.2: the scheme that was tried must be named
			denied.with("WWW-Authenticate", `Basic realm="oauth", charset="UTF-8"`)
		}
		return denied
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Pragma", "no-cache") // RFC 6749 §5.1
	return c.secret(http.StatusOK, struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
	}{token, "bearer", int(oauthLifetime.Seconds())})
}

type tokenParams struct{ grant, clientID, clientSecret string }

func invalidRequest(why string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Message: "invalid_request", Description: why}
}

// tokenParams reads a form or a JSON object, as the Content-Type says: here it decides, for one body could be read as both.
func (c *call) tokenParams() (p tokenParams, err error) {
	kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err != nil {
		kind = ""
	}
	raw, err := c.read()
	if err != nil {
		return p, err
	}
	switch kind {
	case "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(raw))
		if err != nil {
			return p, invalidRequest("the form is malformed")
		}
		for name, values := range form {
			if len(values) > 1 { // RFC 6749 §3.2
				return p, invalidRequest("a parameter is given more than once: " + name)
			}
		}
		return tokenParams{form.Get("grant_type"), form.Get("client_id"), form.Get("client_secret")}, nil
	case "application/json":
		o, err := parseObject(raw)
		if err != nil {
			return p, invalidRequest(err.Error())
		}
		p.grant, _ = o.text("grant_type")
		p.clientID, _ = o.text("client_id")
		p.clientSecret, _ = o.text("client_secret")
		return p, nil
	default:
		return p, invalidRequest("Content-Type must be application/x-www-form-urlencoded or application/json")
	}
}

// clientCredentials takes the client's ID and secret from the body or from HTTP Basic, never from both.
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
