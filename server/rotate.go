package server

import (
	"errors"
	"net/http"
	"time"

	"attestd/crypto/cred"
	"attestd/store"
)

// rotatePassport revokes the presented passport and issues one like it. The agent is looked up before the passport is
// judged, so that every row of the specification's error table can be reached.
func (s *Server) rotatePassport(c *call) error {
	presented := c.passportHeader()
	if presented == "" {
		return fail(http.StatusBadRequest, "Missing "+c.company.Issuer.Domain.PassportHeader()+" passport header")
	}
	agent, err := c.agent()
	if err != nil {
		return err
	}
	old, err := c.ownPassport(presented, agent.ID)
	if err != nil {
		return err
	}
	ttl := time.Duration(old.ExpiresAt-old.IssuedAt) * time.Second
	token, next, err := c.company.Issuer.Passport(agent.ID, old.Scopes, old.DelegationChain, ttl, c.now)
	if err != nil {
		return refusedToken("passport", err)
	}
	err = s.Store.RotatePassport(c.Context(), c.company, old.ID, recorded(next), c.now)
	switch {
	case errors.Is(err, store.ErrRevoked):
		return &apiError{Status: http.StatusConflict, Message: "Passport has already been revoked", Code: cred.CodePassportRevoked}
	case errors.Is(err, store.ErrNotFound):
		return &apiError{Status: http.StatusUnauthorized, Message: "Passport is not known to have been issued", Code: cred.CodeVerificationError}
	case err != nil:
		return err
	}
	body := newPassportBody(c, token, next)
	body.RotatedFrom = old.ID
	return c.secret(http.StatusOK, body)
}

// passportHeader returns the passport that comes under the service's name, or under the product's own, which is always accepted.
func (c *call) passportHeader() string {
	if token := c.Header.Get(c.company.Issuer.Domain.PassportHeader()); token != "" {
		return token
	}
	return c.Header.Get("Attestd-Passport")
}

// ownPassport checks a passport and that it is the agent's and the company's own.
func (c *call) ownPassport(token, agentID string) (cred.PassportClaims, error) {
	claims, err := c.company.Issuer.CheckPassport(token, c.now)
	var refused *cred.Error
	if errors.As(err, &refused) {
		if refused.Code == cred.CodeSignatureInvalid && c.foreignPassport(token) {
			return claims, fail(http.StatusForbidden, "Passport was not issued by the authenticated company")
		}
		return claims, &apiError{Status: http.StatusUnauthorized, Message: refused.Message, Code: refused.Code}
	}
	if err != nil {
		return claims, err
	}
	if claims.Subject != c.company.Issuer.AgentID(agentID) || claims.AgentID != agentID {
		return claims, fail(http.StatusForbidden, "Passport does not belong to the specified agent")
	}
	return claims, nil
}

// foreignPassport says whether a passport that is not ours verifies under the key of the local company that it names.
func (c *call) foreignPassport(token string) bool {
	org, ok := c.company.Issuer.Domain.UnverifiedOrg(token)
	if !ok || org == c.company.ID {
		return false
	}
	other, err := c.s.Store.Company(c.Context(), org)
	if err != nil {
		return false
	}
	_, err = other.Issuer.CheckPassport(token, c.now)
	return err == nil
}
