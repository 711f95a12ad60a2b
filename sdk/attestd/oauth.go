package attestd

import (
	"context"
	"net/http"
)

// OAuthClient is an OAuth client of the company. Only the response to its creation has
// ClientSecret.
type OAuthClient struct {
	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret,omitempty"`
	CompanyID    string `json:"companyId,omitempty"`
	CreatedAt    string `json:"createdAt"`
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
