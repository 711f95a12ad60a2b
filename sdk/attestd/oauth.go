package attestd

import (
	"context"
	"net/http"
	"net/url"

	"attestd/crypto/cred/details"
)

// OAuthClient is an OAuth client of the company. Only the response to its creation has
// ClientSecret.
type OAuthClient struct {
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret,omitempty"`
	CompanyID    string `json:"companyId,omitempty"`
	CreatedAt    string `json:"createdAt"`
	JWKSURI      string `json:"jwksUri,omitempty"` // where its keys are fetched
}

// CreateOAuthClient creates an OAuth client, which has no label.
func (c *Client) CreateOAuthClient(ctx context.Context, n NewCredential) (made OAuthClient, err error) {
	err = c.post(ctx, "/v1/oauth/clients", http.StatusCreated, n, &made)
	return made, err
}

// OAuthClients lists the company's OAuth clients.
func (c *Client) OAuthClients(ctx context.Context) ([]OAuthClient, error) {
	var answer struct{ Clients []OAuthClient }
	err := c.get(ctx, "/v1/oauth/clients", nil, &answer)
	return answer.Clients, err
}

// DeleteOAuthClient deletes an OAuth client and its access tokens.
func (c *Client) DeleteOAuthClient(ctx context.Context, clientID string) error {
	return c.delete(ctx, "/v1/oauth/clients/{clientId}", clientID)
}

// Introspection is what an access token is good for (RFC 7662). Of a token that is not active it
// says nothing else.
type Introspection struct {
	Active    bool   `json:"active"`
	Issuer    string `json:"iss,omitempty"`
	Subject   string `json:"sub,omitempty"` // ID of the client, or SPIFFE ID of the agent
	Audience  string `json:"aud,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	AgentID   string `json:"agent_id,omitempty"`
	Org       string `json:"org,omitempty"`
	Scope     string `json:"scope,omitempty"`
	TokenType string `json:"token_type,omitempty"`
	Expires   int64  `json:"exp,omitempty"` // Unix seconds

	AuthorizationDetails details.Details `json:"authorization_details,omitzero"`
}

// IntrospectToken asks what an access token of the company is good for, as an admin or as the
// holder of an access token.
func (c *Client) IntrospectToken(ctx context.Context, companyID, token string) (found Introspection, err error) {
	err = c.postForm(ctx, "/o/{companyId}/introspect", url.Values{"token": {token}}, &found, companyID)
	return found, err
}

// RevokeToken ends an access token of the company: an own one, or for an admin anybody's.
func (c *Client) RevokeToken(ctx context.Context, companyID, token string) error {
	return c.postForm(ctx, "/o/{companyId}/revoke", url.Values{"token": {token}}, nil, companyID)
}

func (c *Client) postForm(ctx context.Context, route string, form url.Values, answer any, path ...string) error {
	return c.do(ctx, request{
		method: http.MethodPost, route: route, path: path, safe: true, status: http.StatusOK,
		body: []byte(form.Encode()), contentType: "application/x-www-form-urlencoded",
	}, answer)
}

// CompanyToken gets an access token for a client's ID and secret at the token endpoint of its
// company, with a scope, or "" for all that the client may do.
func (c *Client) CompanyToken(ctx context.Context, companyID, clientID, secret, scope string) (t Token, err error) {
	return c.CompanyTokenLimited(ctx, companyID, clientID, secret, scope, details.Details{})
}

// CompanyTokenLimited is CompanyToken with authorization details, which all that comes of the token
// keeps.
func (c *Client) CompanyTokenLimited(ctx context.Context, companyID, clientID, secret, scope string, limits details.Details) (t Token, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {secret}}
	if scope != "" {
		form.Set("scope", scope)
	}
	if !limits.IsZero() {
		form.Set("authorization_details", limits.String())
	}
	err = c.do(ctx, request{
		method: http.MethodPost, route: "/o/{companyId}/token", path: []string{companyID}, public: true, safe: true, status: http.StatusOK,
		body: []byte(form.Encode()), contentType: "application/x-www-form-urlencoded",
	}, &t)
	return t, err
}

// ResourceMetadata is the metadata of the API as a resource (RFC 9728).
type ResourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	JWKSURI  string   `json:"jwks_uri"`
	Scopes   []string `json:"scopes_supported"`
}

// ResourceMetadata returns the metadata of the whole API as a resource.
func (c *Client) ResourceMetadata(ctx context.Context) (m ResourceMetadata, err error) {
	err = c.get(ctx, "/.well-known/oauth-protected-resource", nil, &m)
	return m, err
}

// CompanyResourceMetadata returns the metadata of a company's part of the API as a resource.
func (c *Client) CompanyResourceMetadata(ctx context.Context, companyID string) (m ResourceMetadata, err error) {
	err = c.get(ctx, "/.well-known/oauth-protected-resource/o/{companyId}", nil, &m, companyID)
	return m, err
}
