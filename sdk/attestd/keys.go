package attestd

import (
	"context"
	"encoding/json"
	"net/http"
)

// Role is the role of a credential. Each role includes the rights of the ones before it.
type Role string

const (
	Reader Role = "reader" // read
	Writer Role = "writer" // also attest and check passports
	Admin  Role = "admin"  // all operations
)

// NewCredential is the request to create an API key or an OAuth client.
type NewCredential struct {
	Label     string `json:"label,omitempty"`     // of API keys only; for people
	Role      Role   `json:"role,omitempty"`      // "" is Admin
	ExpiresAt string `json:"expiresAt,omitempty"` // 2026-03-02T09:00:00.000Z; "" never

	// public keys of an OAuth client, which then has no secret: a JWK set, or the URL of one
	JWKS    json.RawMessage `json:"jwks,omitempty"`
	JWKSURI string          `json:"jwksUri,omitempty"`
}

// APIKey is a key of the company. Key is the secret.
type APIKey struct {
	Key       string `json:"key"`
	Label     string `json:"label,omitempty"`
	CreatedAt string `json:"createdAt"`
}

// CreateKey creates an API key.
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

// DeleteKey deletes an API key. Deleting the company's last admin key is an error (409).
func (c *Client) DeleteKey(ctx context.Context, key string) error {
	return c.delete(ctx, "/v1/keys/{key}", key)
}

// CredentialInfo describes an API key or OAuth client without its secret.
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
