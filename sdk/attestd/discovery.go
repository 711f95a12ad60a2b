package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"attestd/crypto/keys"
)

// PublicKey is the current signing key of a company.
type PublicKey struct {
	CompanyID   string     `json:"companyId"`
	SPIFFEID    string     `json:"spiffeId"`
	KID         string     `json:"kid"`
	PEM         string     `json:"pem"`
	JWK         keys.JWK   `json:"jwk"`
	Fingerprint string     `json:"fingerprint"`
	Keys        []keys.JWK `json:"keys"` // it, and former ones whose tokens may still be valid
}

func ofCompany(companyID string) url.Values { return url.Values{"companyId": {companyID}} }

// PublicKey returns the current key of a company. The caller MUST compare its fingerprint with one
// from another channel before trusting it.
func (c *Client) PublicKey(ctx context.Context, companyID string) (k PublicKey, err error) {
	err = c.get(ctx, "/v1/ca/public-key", ofCompany(companyID), &k)
	return k, err
}

// PublicKeys are all keys of a company, oldest first. They are untrusted until Pin succeeds.
type PublicKeys struct {
	CompanyID string       `json:"companyId"`
	SPIFFEID  string       `json:"spiffeId"`
	Origin    string       `json:"origin"`
	Keys      []CompanyKey `json:"keys"`
	Logs      []LogKeys    `json:"logs"`
}

// CompanyKey is one key of a company.
type CompanyKey struct {
	KID           string    `json:"kid"`
	JWK           keys.JWK  `json:"jwk"`
	PEM           string    `json:"pem"`
	Fingerprint   string    `json:"fingerprint"`
	FromIndex     int64     `json:"fromIndex"` // the first record that it signs
	CreatedAt     string    `json:"createdAt"`
	EndedAt       string    `json:"endedAt,omitempty"`
	CompromisedAt string    `json:"compromisedAt,omitempty"`
	Rotation      *Rotation `json:"rotation,omitempty"` // nil of the first
}

// LogKeys are the keys that sign the control log.
type LogKeys struct {
	Log    Log    `json:"log"`
	Origin string `json:"origin"`
	Keys   []struct {
		KID       string    `json:"kid"`
		FromIndex int64     `json:"fromIndex"`
		Rotation  *Rotation `json:"rotation,omitempty"`
	} `json:"keys"`
}

// Rotation proves that a key follows the one before it.
type Rotation struct {
	Statement    string `json:"statement"`
	OldSignature string `json:"oldSignature"` // base64url
	NewSignature string `json:"newSignature"`
}

// PublicKeys returns all keys of a company.
func (c *Client) PublicKeys(ctx context.Context, companyID string) (k PublicKeys, err error) {
	err = c.get(ctx, "/v1/ca/public-keys", ofCompany(companyID), &k)
	return k, err
}

// Discovery is the discovery document for verifiers of a company's tokens.
type Discovery struct {
	Issuer          string     `json:"issuer"`
	JWKSURI         string     `json:"jwks_uri"`
	TokenEndpoint   string     `json:"token_endpoint"`
	CompanyID       string     `json:"company_id"`
	CompanySPIFFEID string     `json:"company_spiffe_id"`
	TrustDomain     string     `json:"trust_domain"`
	KID             string     `json:"kid"`
	Fingerprint     string     `json:"fingerprint"`
	Keys            []keys.JWK `json:"keys"`
	PassportFormat  struct {
		Version         int    `json:"version"`
		TokenType       string `json:"token_type"`
		Audience        string `json:"audience"`
		ClaimsNamespace string `json:"claims_namespace"` // the service's name
	} `json:"passport_format"`
	ServiceVersion string `json:"service_version"`
}

// Discovery returns the discovery document of a company.
func (c *Client) Discovery(ctx context.Context, companyID string) (d Discovery, err error) {
	err = c.get(ctx, "/v1/ca/well-known", ofCompany(companyID), &d)
	return d, err
}

// Health returns nil if the service answers.
func (c *Client) Health(ctx context.Context) error {
	return c.get(ctx, "/v1/health", nil, nil)
}

// Readiness reports whether the service accepts writes.
type Readiness struct {
	Status   string   `json:"status"`             // ready or degraded
	Reasons  []string `json:"reasons,omitempty"`  // codes of what is wrong if it is degraded
	HeadFile string   `json:"headFile,omitempty"` // written or behind
}

// Ready returns without an error if the service accepts writes. It does not retry.
func (c *Client) Ready(ctx context.Context) (r Readiness, err error) {
	once := *c
	once.retry = Retry{}
	err = once.get(ctx, "/readyz", nil, &r)
	return r, err
}

// OpenAPI returns the API reference.
func (c *Client) OpenAPI(ctx context.Context) (json.RawMessage, error) {
	var text []byte
	err := c.do(ctx, request{method: http.MethodGet, route: "/v1/openapi.json", status: http.StatusOK}, &text)
	return text, err
}
