package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"attestd/crypto/cred"
	"attestd/store"
)

type delegateRequest struct {
	AgentID  string `json:"agentId" must:"string"`
	ActingOn string `json:"actingOn" must:"segment"`
	Scope    string `json:"scope" must:"string"`
}

type delegationBody struct {
	Token string          `json:"token"`
	Sub   string          `json:"sub"`
	Act   json.RawMessage `json:"act"`
	JTI   string          `json:"jti"`
	Scope string          `json:"scope"`
}

// delegate issues a token with which an agent of the company acts on behalf of a company.
func (s *Server) delegate(ctx context.Context, by store.Caller, r delegateRequest) (delegationBody, error) {
	if err := s.Store.Changeable(by); err != nil {
		return delegationBody{}, err
	}
	if err := s.Store.CheckAgent(ctx, by, r.AgentID); err != nil {
		return delegationBody{}, agentError(r.AgentID, err)
	}
	issuer := by.Company.Issuer
	subject := issuer.Domain.CompanyID(r.ActingOn)
	token, d, err := issuer.Delegate(cred.Delegation{Subject: subject, Chain: []string{subject}}, issuer.AgentID(r.AgentID), r.Scope, by.At)
	if err != nil {
		return delegationBody{}, refusedToken("scope", err)
	}
	return delegationBody{token, d.Subject, d.Act, d.TokenID, r.Scope}, nil
}

type exchangeRequest struct {
	_                struct{} `form:"yes"`
	GrantType        string   `json:"grant_type" must:"is urn:ietf:params:oauth:grant-type:token-exchange" else:"unsupported_grant_type"`
	SubjectToken     string   `json:"subject_token" must:"string"`
	SubjectTokenType string   `json:"subject_token_type" must:"is urn:ietf:params:oauth:token-type:jwt" else:"unsupported_token_type"`
	ActorToken       string   `json:"actor_token" must:"string"`
	ActorTokenType   string   `json:"actor_token_type" must:"is urn:ietf:params:oauth:token-type:jwt" else:"unsupported_token_type"`
}

type exchanged struct {
	AccessToken     string   `json:"access_token"`
	IssuedTokenType string   `json:"issued_token_type"`
	TokenType       string   `json:"token_type"`
	ExpiresIn       int      `json:"expires_in"`
	DelegationChain []string `json:"delegation_chain"`
}

// exchangeTokens is the token exchange of RFC 8693: the actor comes to act for all that the subject
// token names.
func (s *Server) exchangeTokens(ctx context.Context, by store.Caller, r exchangeRequest) (exchanged, error) {
	if err := s.Store.Changeable(by); err != nil {
		return exchanged{}, err
	}
	issuer := by.Company.Issuer
	subject, err := issuer.CheckDelegation(r.SubjectToken, by.At)
	if err != nil {
		return exchanged{}, refusedToken("subject_token", err)
	}
	actor, err := issuer.CheckDelegation(r.ActorToken, by.At)
	if err != nil {
		return exchanged{}, refusedToken("actor_token", err)
	}
	if len(actor.Chain) > 1 {
		return exchanged{}, fail(http.StatusBadRequest, "Invalid actor_token: it must be a plain SVID, without act")
	}
	if err := s.mayDelegate(ctx, by, append(subject.Chain, actor.Subject)); err != nil {
		return exchanged{}, err
	}
	token, d, err := issuer.Delegate(subject, actor.Subject, subject.Scope, by.At)
	if err != nil {
		return exchanged{}, refusedToken("subject_token", err)
	}
	return exchanged{token, r.SubjectTokenType, "N_A", int(cred.SVIDLifetime.Seconds()), d.Chain}, nil
}

// refusedToken makes a 400 of the reason why a token, or what should become one, is refused.
func refusedToken(field string, err error) error {
	var refused *cred.Error
	if errors.As(err, &refused) {
		return fail(http.StatusBadRequest, "Invalid "+field+": "+refused.Message)
	}
	return err
}
