package attestd

import (
	"context"
	"net/http"
)

// Role is what a credential may do.
type Role string

const (
	Reader Role = "reader" // read
	Writer Role = "writer" // that, and attest and check passports
	Admin  Role = "admin"  // everything
)

// NewCredential says what an API key or an OAuth client is made for.
type NewCredential struct {
	Label     string `json:"label,omitempty"`     // of keys alone; for people
	Role      Role   `json:"role,omitempty"`      // "" is Admin
	ExpiresAt string `json:"expiresAt,omitempty"` // 2026-03-02T09:00:00.000Z; "" never
}

// APIKey is a key of the company. Key is the secret.
type APIKey struct {
	Key       string `json:"key"`
	Label     string `json:"label,omitempty"`
	CreatedAt string `json:"createdAt"`
}

// CreateKey makes an API key.
func (c *Client) CreateKey(ctx context.Context, n NewCredential) (k APIKey, err error) {
	err = c.post(ctx, "/v1/keys", http.StatusCreated, n, &k)
	return k, err
}

// Keys lists the company's API keys.
func (c *Client) Keys(ctx context.Context) ([]APIKey, error) {
	var answer struct{ Keys []APIKey }
	err := c.get(ctx, "/v1/keys", nil, &answer)
	return answer.Keys, err
}

// DeleteKey deletes an API key, but never the company's last.
func (c *Client) DeleteKey(ctx context.Context, key string) error {
	return c.delete(ctx, "/v1/keys/{key}", key)
}

// CredentialInfo is what may be known of a key or OAuth client without its secret.
type CredentialInfo struct {
	Kind        string `json:"kind"`        // apiKey or oauthClient
	Fingerprint string `json:"fingerprint"` // the first 16 hex digits of the SHA-256 of the secret
	ClientID    string `json:"clientId,omitempty"`
	Label       string `json:"label,omitempty"`
	CreatedAt   string `json:"createdAt"`
	MadeBy      string `json:"madeBy,omitempty"` // fingerprint
	LastUsedAt  string `json:"lastUsedAt,omitempty"`
	Role        Role   `json:"role"`
	ExpiresAt   string `json:"expiresAt,omitempty"`
}

// Credentials lists the company's keys and OAuth clients with their roles.
func (c *Client) Credentials(ctx context.Context) ([]CredentialInfo, error) {
	var answer struct{ Credentials []CredentialInfo }
	err := c.get(ctx, "/v1/credentials", nil, &answer)
	return answer.Credentials, err
}
