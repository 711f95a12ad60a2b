package attestd

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// NewCompany is the request to register a company.
type NewCompany struct {
	CompanyID string          `json:"companyId"`          // 1 to 128 of A-Z, a-z, 0-9, ., _ and -
	Metadata  json.RawMessage `json:"metadata,omitempty"` // an object
}

// Company is a tenant. APIKey is its first key, only in the response to its registration.
type Company struct {
	CompanyID    string          `json:"companyId"`
	SPIFFEID     string          `json:"spiffeId"`
	RegisteredAt string          `json:"registeredAt"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
	APIKey       string          `json:"apiKey,omitempty"`
	// nil unless the operator of the service has suspended the company
	Suspended *Suspension `json:"suspended,omitempty"`
}

// Suspension says since when a company is suspended, and why.
type Suspension struct {
	Since  string `json:"since"`
	Reason string `json:"reason"`
}

// CreateCompany registers a company. If the operator requires a registration token, it is the
// client's credential.
func (c *Client) CreateCompany(ctx context.Context, n NewCompany) (made Company, err error) {
	err = c.post(ctx, "/v1/companies", http.StatusCreated, n, &made)
	return made, err
}

// Setup is CreateCompany in the rate tier sensitive.
func (c *Client) Setup(ctx context.Context, n NewCompany) (made Company, err error) {
	err = c.post(ctx, "/v1/setup", http.StatusCreated, n, &made)
	return made, err
}

// Company returns the company of the credential.
func (c *Client) Company(ctx context.Context) (found Company, err error) {
	err = c.get(ctx, "/v1/company", nil, &found)
	return found, err
}

// RecoverKey returns the oldest admin key of a company without expiry. The service answers only
// callers on its own machine.
func (c *Client) RecoverKey(ctx context.Context, companyID string) (k APIKey, err error) {
	err = c.post(ctx, "/v1/recover-key", http.StatusOK, map[string]string{"companyId": companyID}, &k)
	return k, err
}

// SVID is an identity token, valid for an hour.
type SVID struct {
	CompanyID string `json:"companyId,omitempty"` // of a company's own
	AgentID   string `json:"agentId,omitempty"`   // of an agent's
	SPIFFEID  string `json:"spiffeId"`
	SVID      string `json:"svid"`
	ExpiresAt string `json:"expiresAt,omitempty"` // of one for an audience
}

// CompanySVID returns a fresh SVID of the company itself.
func (c *Client) CompanySVID(ctx context.Context) (s SVID, err error) {
	err = c.post(ctx, "/v1/companies/svid", http.StatusOK, nil, &s)
	return s, err
}

// KeysRotated is the result of a rotation: the first record that the new key signs.
type KeysRotated struct {
	KID                   string `json:"kid"`
	Fingerprint           string `json:"fingerprint"`
	PreviousKID           string `json:"previousKid"`
	Index                 int64  `json:"index"`
	CreatedAt             string `json:"createdAt"`
	PreviousEndedAt       string `json:"previousEndedAt"`
	PreviousCompromisedAt string `json:"previousCompromisedAt,omitempty"`
}

// RotateKeys rotates the company's signing key. With compromised, all earlier tokens are refused.
func (c *Client) RotateKeys(ctx context.Context, compromised bool) (r KeysRotated, err error) {
	err = c.post(ctx, "/v1/companies/rotate-keys", http.StatusOK, map[string]bool{"compromised": compromised}, &r)
	return r, err
}

// Quota is a credential's limit of attestations in a window of 60 seconds.
type Quota struct {
	Limit     int
	Remaining int       // at the time of the response; the company's if that is less
	Reset     time.Time // when Remaining increases
}

// AttestQuota returns the quota in the latest response to an attestation. ok is false if there was
// none.
func (c *Client) AttestQuota() (q Quota, ok bool) {
	if known := c.quota.Load(); known != nil {
		return *known, true
	}
	return q, false
}

// storeQuota stores the quota in a response.
func (c *Client) storeQuota(h http.Header) {
	var q Quota
	var reset int64
	for _, member := range []struct {
		name string
		read func(int64)
	}{
		{"X-RateLimit-Limit", func(n int64) { q.Limit = int(n) }},
		{"X-RateLimit-Remaining", func(n int64) { q.Remaining = int(n) }},
		{"X-RateLimit-Reset", func(n int64) { reset = n }},
	} {
		n, err := strconv.ParseInt(h.Get(member.name), 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			return
		}
		member.read(n)
	}
	if n, err := strconv.Atoi(h.Get("X-RateLimit-Company-Remaining")); err == nil && n >= 0 {
		q.Remaining = min(q.Remaining, n)
	}
	q.Reset = time.Unix(reset, 0)
	c.quota.Store(&q)
}
