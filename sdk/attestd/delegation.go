package attestd

import (
	"context"
	"encoding/json"
	"net/http"
)

// Delegated is a token that lets an agent act for a company.
type Delegated struct {
	Token string          `json:"token"` // for Attestation.Delegation
	Sub   string          `json:"sub"`
	Act   json.RawMessage `json:"act"`
	JTI   string          `json:"jti"`
	Scope string          `json:"scope"`
}

// Delegate lets an agent act for the company actingOn, for scopes that are separated by spaces.
func (c *Client) Delegate(ctx context.Context, agentID, actingOn, scope string) (d Delegated, err error) {
	err = c.post(ctx, "/v1/token-exchange", http.StatusCreated, map[string]string{"agentId": agentID, "actingOn": actingOn, "scope": scope}, &d)
	return d, err
}

// Exchanged is a token that says that one more actor acts for a subject.
type Exchanged struct {
	AccessToken     string   `json:"access_token"` // for Attestation.Delegation
	IssuedTokenType string   `json:"issued_token_type"`
	TokenType       string   `json:"token_type"`
	ExpiresIn       int64    `json:"expires_in"` // seconds
	DelegationChain []string `json:"delegation_chain"`
}

// ExchangeToken puts an actor, by its SVID, behind the subject of another token: an SVID or the
// token of an earlier exchange.
func (c *Client) ExchangeToken(ctx context.Context, subjectToken, actorToken string) (e Exchanged, err error) {
	const jwt = "urn:ietf:params:oauth:token-type:jwt"
	err = c.post(ctx, "/v1/token/exchange", http.StatusOK, map[string]string{
		"grant_type":    "urn:ietf:params:oauth:grant-type:token-exchange",
		"subject_token": subjectToken, "subject_token_type": jwt,
		"actor_token": actorToken, "actor_token_type": jwt,
	}, &e)
	return e, err
}
