package attestd

import (
	"context"
	"encoding/json"
	"net/http"

	"attestd/crypto/cred/details"
)

// Delegated is a delegation token for an agent that acts for a company.
type Delegated struct {
	Token string          `json:"token"` // for Attestation.Delegation
	Sub   string          `json:"sub"`
	Act   json.RawMessage `json:"act"`
	JTI   string          `json:"jti"`
	Scope string          `json:"scope"`

	AuthorizationDetails details.Details `json:"authorizationDetails,omitzero"`
}

// Delegate issues a delegation token for an agent that acts for the company actingOn. Spaces
// separate the scopes.
func (c *Client) Delegate(ctx context.Context, agentID, actingOn, scope string) (d Delegated, err error) {
	return c.DelegateLimited(ctx, agentID, actingOn, scope, details.Details{})
}

// DelegateLimited is Delegate with authorization details, which limit with which arguments the
// agent may call tools.
func (c *Client) DelegateLimited(ctx context.Context, agentID, actingOn, scope string, limits details.Details) (d Delegated, err error) {
	err = c.post(ctx, "/v1/token-exchange", http.StatusCreated, struct {
		AgentID  string          `json:"agentId"`
		ActingOn string          `json:"actingOn"`
		Scope    string          `json:"scope"`
		Details  details.Details `json:"authorizationDetails,omitzero"`
	}{agentID, actingOn, scope, limits}, &d)
	return d, err
}

// Exchanged is a delegation token with one more actor.
type Exchanged struct {
	AccessToken     string   `json:"access_token"` // for Attestation.Delegation
	IssuedTokenType string   `json:"issued_token_type"`
	TokenType       string   `json:"token_type"`
	ExpiresIn       int64    `json:"expires_in"` // seconds
	DelegationChain []string `json:"delegation_chain"`

	AuthorizationDetails details.Details `json:"authorization_details,omitzero"`
}

// ExchangeToken exchanges a subject token (an SVID or the token of an earlier exchange) and an
// actor's SVID for a delegation token (RFC 8693), which has the authorization details of both.
func (c *Client) ExchangeToken(ctx context.Context, subjectToken, actorToken string) (e Exchanged, err error) {
	const jwt = "urn:ietf:params:oauth:token-type:jwt"
	err = c.post(ctx, "/v1/token/exchange", http.StatusOK, map[string]string{
		"grant_type":    "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token": subjectToken, "subject_token_type": jwt,
		"actor_token": actorToken, "actor_token_type": jwt,
	}, &e)
	return e, err
}
