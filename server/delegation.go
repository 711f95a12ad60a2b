package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"attestd/crypto/cred"
)

const (
	grantTokenExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeJWT            = "urn:ietf:params:oauth:token-type:jwt"
)

// delegate issues a token with which an agent of the company acts on behalf of a company.
func (s *Server) delegate(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	agentID, err := o.need("agentId")
	if err != nil {
		return err
	}
	actingOn, err := o.segment("actingOn")
	if err != nil {
		return err
	}
	scope, err := o.need("scope")
	if err != nil {
		return err
	}
	agent, err := c.agentNamed(agentID)
	if err != nil {
		return err
	}
	issuer := c.company.Issuer
	subject := issuer.Domain.CompanyID(actingOn)
	actor := issuer.AgentID(agent.ID)
	token, d, err := issuer.Delegate(cred.Delegation{Subject: subject, Chain: []string{subject}}, actor, scope, c.now)
	if err != nil {
		return refusedToken("scope", err)
	}
	return c.secret(http.StatusCreated, struct {
		Token string          `json:"token"`
		Sub   string          `json:"sub"`
		Act   json.RawMessage `json:"act"`
		JTI   string          `json:"jti"`
		Scope string          `json:"scope"`
	}{token, d.Subject, d.Act, d.TokenID, scope})
}

// exchangeTokens is the token exchange of RFC 8693: the actor comes to act for all that the subject token names.
func (s *Server) exchangeTokens(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	fields := map[string]string{}
	for _, name := range []string{"grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type"} {
		if fields[name], err = o.need(name); err != nil {
			return err
		}
		switch {
		case name == "grant_type" && fields[name] != grantTokenExchange:
			return fail(http.StatusBadRequest, "unsupported_grant_type: grant_type must be "+grantTokenExchange)
		case (name == "subject_token_type" || name == "actor_token_type") && fields[name] != typeJWT:
			return fail(http.StatusBadRequest, "unsupported_token_type: "+name+" must be "+typeJWT)
		}
	}
	issuer := c.company.Issuer
	subject, err := issuer.CheckDelegation(fields["subject_token"], c.now)
	if err != nil {
		return refusedToken("subject_token", err)
	}
	actor, err := issuer.CheckDelegation(fields["actor_token"], c.now)
	if err != nil {
		return refusedToken("actor_token", err)
	}
	if len(actor.Chain) > 1 {
		return fail(http.StatusBadRequest, "Invalid actor_token: it must be a plain SVID, without act")
	}
	token, d, err := issuer.Delegate(subject, actor.Subject, subject.Scope, c.now)
	if err != nil {
		return refusedToken("subject_token", err)
	}
	return c.secret(http.StatusOK, struct {
		AccessToken     string   `json:"access_token"`
		IssuedTokenType string   `json:"issued_token_type"`
		TokenType       string   `json:"token_type"`
		ExpiresIn       int      `json:"expires_in"`
		DelegationChain []string `json:"delegation_chain"`
	}{token, typeJWT, "N_A", int(cred.SVIDLifetime.Seconds()), d.Chain})
}

// refusedToken makes a 400 of the reason why a token, or what should become one, is refused.
func refusedToken(field string, err error) error {
	var refused *cred.Error
	if errors.As(err, &refused) {
		return fail(http.StatusBadRequest, "Invalid "+field+": "+refused.Message)
	}
	return err
}
