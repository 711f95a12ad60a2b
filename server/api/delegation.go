package api

import (
	"context"
	"encoding/json"

	"attestd/crypto/cred/details"
	"attestd/service"
	"attestd/store"
)

// Delegations let agents act for companies.
type Delegations struct{ Delegations *service.Delegations }

type delegateRequest struct {
	AgentID  string `json:"agentId" must:"string"`
	ActingOn string `json:"actingOn" must:"segment"`
	Scope    string `json:"scope" must:"string"`

	Details details.Details `json:"authorizationDetails" must:"details"`
}

type delegationBody struct {
	Token string          `json:"token"`
	Sub   string          `json:"sub"`
	Act   json.RawMessage `json:"act"`
	JTI   string          `json:"jti"`
	Scope string          `json:"scope"`

	Details details.Details `json:"authorizationDetails,omitzero"`
}

// Delegate issues a token with which an agent of the company acts on behalf of a company.
func (s *Delegations) Delegate(ctx context.Context, by store.Caller, r delegateRequest) (delegationBody, error) {
	token, d, err := s.Delegations.Issue(ctx, by, r.AgentID, r.ActingOn, r.Scope, r.Details)
	if err != nil {
		return delegationBody{}, err
	}
	return delegationBody{token, d.Subject, d.Act, d.TokenID, r.Scope, d.Details}, nil
}

type exchangeRequest struct {
	_                struct{} `form:"yes" given:"authorization_details"`
	GrantType        string   `json:"grant_type" must:"is urn:ietf:params:oauth:grant-type:token-exchange" else:"unsupported_grant_type"`
	SubjectToken     string   `json:"subject_token" must:"string"`
	SubjectTokenType string   `json:"subject_token_type" must:"is urn:ietf:params:oauth:token-type:jwt" else:"unsupported_token_type"`
	ActorToken       string   `json:"actor_token" must:"string"`
	ActorTokenType   string   `json:"actor_token_type" must:"is urn:ietf:params:oauth:token-type:jwt" else:"unsupported_token_type"`

	Details details.Details `json:"authorization_details" must:"details"`
}

type exchanged struct {
	AccessToken     string   `json:"access_token"`
	IssuedTokenType string   `json:"issued_token_type"`
	TokenType       string   `json:"token_type"`
	ExpiresIn       int      `json:"expires_in"`
	DelegationChain []string `json:"delegation_chain"`

	Details details.Details `json:"authorization_details,omitzero"`
}

// ExchangeTokens implements the token exchange of RFC 8693.
func (s *Delegations) ExchangeTokens(ctx context.Context, by store.Caller, r exchangeRequest) (exchanged, error) {
	token, d, err := s.Delegations.Exchange(ctx, by, r.SubjectToken, r.ActorToken, r.Details)
	if err != nil {
		return exchanged{}, err
	}
	return exchanged{token, r.SubjectTokenType, "N_A", int(d.Ends.Unix() - by.At.Unix()), d.Chain, d.Details}, nil
}
