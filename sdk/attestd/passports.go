package attestd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"attestd/crypto/cred/details"
)

// NewPassport is the request to issue a passport.
type NewPassport struct {
	Scopes []string `json:"scopes,omitempty"` // nil: tool:* and attest:write
	TTL    int      `json:"ttl,omitempty"`    // seconds, at most a day; 0: an hour
	// thumbprint of a live key of the agent, to which the passport is bound; "" for none
	JKT string `json:"jkt,omitempty"`
	// with which arguments tools may be called; none limit nothing beside the scopes
	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`
}

// Passport is a new passport.
type Passport struct {
	AgentID         string   `json:"agentId"`
	SPIFFEID        string   `json:"spiffeId"`
	Org             string   `json:"org"` // the company's ID
	OrgSPIFFEID     string   `json:"orgSpiffeId"`
	Scopes          []string `json:"scopes"`
	DelegationChain []string `json:"delegationChain"`
	Passport        string   `json:"passport"`
	ExpiresIn       int64    `json:"expiresIn"` // seconds
	CAPublicKey     string   `json:"caPublicKey"`
	RotatedFrom     string   `json:"rotatedFrom,omitempty"` // jti of the one that it replaces

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`
}

// IssuePassport issues a passport to a registered agent.
func (c *Client) IssuePassport(ctx context.Context, agentID string, n NewPassport) (p Passport, err error) {
	err = c.post(ctx, "/v1/agents/{agentId}/passport", http.StatusCreated, n, &p, agentID)
	return p, err
}

// RotatePassport revokes a passport and issues another with the same scopes and lifetime.
func (c *Client) RotatePassport(ctx context.Context, agentID, passport string) (p Passport, err error) {
	err = c.do(ctx, request{
		method: http.MethodPost, route: "/v1/agents/{agentId}/passport/rotate", path: []string{agentID}, status: http.StatusOK,
		header: http.Header{"Attestd-Passport": {passport}},
	}, &p)
	return p, err
}

// PassportVerdict is the service's verdict on a passport. An invalid passport is not an error of
// the call: Valid is false, and Code names the failed check.
type PassportVerdict struct {
	Valid        bool            `json:"valid"`
	Claims       json.RawMessage `json:"claims,omitempty"` // as they are in the token
	ScopeGranted string          `json:"scopeGranted,omitempty"`
	Receipt      json.RawMessage `json:"receipt,omitempty"`
	Code         string          `json:"code,omitempty"`
	Error        string          `json:"error,omitempty"`
}

// VerifyPassport makes the service check a passport, including revocation, and its scope for a tool
// unless tool is "".
func (c *Client) VerifyPassport(ctx context.Context, passport, tool string) (PassportVerdict, error) {
	return c.VerifyBoundPassport(ctx, passport, tool, ToolCall{})
}

// ToolCall is the request with which a passport came, as its verifier sees it.
type ToolCall struct {
	Proof, Method, URL string // its DPoP header, e.g. POST, and its URL
	// of the tool; nil where they are not known, and then only authorization details without
	// arguments cover the call
	Arguments json.RawMessage
}

// VerifyBoundPassport is VerifyPassport for one call. Of a passport that is bound to a key, call
// shows that its sender holds the key. A proof counts once, so that the service refuses a repeated
// request.
func (c *Client) VerifyBoundPassport(ctx context.Context, passport, tool string, call ToolCall) (v PassportVerdict, err error) {
	body := map[string]any{"passport": passport}
	for name, value := range map[string]string{"tool": tool, "proof": call.Proof, "htm": call.Method, "htu": call.URL} {
		if value != "" {
			body[name] = value
		}
	}
	if call.Arguments != nil {
		body["arguments"] = call.Arguments
	}
	text, err := json.Marshal(body)
	if err != nil {
		return v, err
	}
	// Repeating the request has no effect.
	err = c.do(ctx, request{method: http.MethodPost, route: "/v1/passport/verify", body: text, status: http.StatusOK, safe: true}, &v)
	var denied *Error
	if errors.As(err, &denied) && !denied.Foreign && denied.Status == http.StatusBadRequest && denied.Code != "" {
		return PassportVerdict{Code: denied.Code, Error: denied.Message}, nil
	}
	return v, err
}

// PassportSummary is a passport without its token.
type PassportSummary struct {
	JTI       string   `json:"jti"`
	AgentID   string   `json:"agentId"`
	Scopes    []string `json:"scopes"`
	IssuedAt  string   `json:"issuedAt"`
	ExpiresAt string   `json:"expiresAt"`
	Status    string   `json:"status"` // valid, revoked or expired
	RevokedAt string   `json:"revokedAt,omitempty"`
	Reason    string   `json:"reason,omitempty"`

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`
}

// PassportFilter selects the passports that match all its fields. An empty field matches all.
type PassportFilter struct {
	AgentID string
	Status  string // valid, revoked or expired
}

// Passports returns the company's passports, newest first. It fetches one page at a time.
func (c *Client) Passports(ctx context.Context, f PassportFilter) iter.Seq2[PassportSummary, error] {
	return pages(func(cursor string) ([]PassportSummary, string, error) {
		var page struct {
			Passports []PassportSummary
			Next      string
		}
		err := c.get(ctx, "/v1/passports", pageQuery(cursor, "agent", f.AgentID, "status", f.Status), &page)
		return page.Passports, page.Next, err
	})
}

// Revocation is a revoked passport.
type Revocation struct {
	JTI       string `json:"jti"`
	RevokedAt string `json:"revokedAt"`
	Reason    string `json:"reason,omitempty"`
}

// RevokedPassports lists the passports that were revoked.
func (c *Client) RevokedPassports(ctx context.Context) ([]Revocation, error) {
	var answer struct{ Revoked []Revocation }
	err := c.get(ctx, "/v1/passports/revoked", nil, &answer)
	return answer.Revoked, err
}

// RevokePassport revokes a passport by its jti. reason may be "".
func (c *Client) RevokePassport(ctx context.Context, jti, reason string) (r Revocation, err error) {
	body := map[string]string{}
	if reason != "" {
		body["reason"] = reason
	}
	err = c.post(ctx, "/v1/passports/{jti}/revoke", http.StatusOK, body, &r, jti)
	return r, err
}

// PassportStatus is the signed status of a passport.
type PassportStatus struct {
	JTI         string `json:"jti"`
	CompanyID   string `json:"companyId"`
	Status      string `json:"status"` // valid, revoked or unknown
	CheckedAt   string `json:"checkedAt"`
	RevokedAt   string `json:"revokedAt,omitempty"`
	Reason      string `json:"reason,omitempty"`
	CAPublicKey string `json:"caPublicKey"`
	Signature   string `json:"signature"`

	raw json.RawMessage // the bytes received, for Verify
}

// UnmarshalJSON decodes a status and stores its bytes for Verify.
func (s *PassportStatus) UnmarshalJSON(text []byte) error {
	type plain PassportStatus
	var read plain
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*s = PassportStatus(read)
	s.raw = bytes.Clone(text)
	return nil
}

// PassportStatus returns the signed status of a passport.
func (c *Client) PassportStatus(ctx context.Context, jti string) (s PassportStatus, err error) {
	err = c.get(ctx, "/v1/ocsp/{jti}", nil, &s, jti)
	return s, err
}
