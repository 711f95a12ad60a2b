package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"attestd/crypto/cred"
	"attestd/store"
)

type rotatePassportRequest struct {
	AgentID string `path:"agentId"`
	*http.Request
}

// rotatePassport revokes the presented passport and issues one like it. The passport is judged
// before the agent is looked up: what it is worth is said in the order of the specification's error
// table, and nothing of the agent to whoever holds none.
func (s *Server) rotatePassport(ctx context.Context, by store.Caller, r rotatePassportRequest) (passportBody, error) {
	issuer := by.Company.Issuer
	// Under the service's name, or under the product's own, which is always accepted.
	header := issuer.Domain.Title() + "-Passport" // Service-Passport for a service named service
	presented := cmp.Or(r.Header.Get(header), r.Header.Get("Attestd-Passport"))
	if given := len(r.Header.Values(header)); given > 1 || header != "Attestd-Passport" && given+len(r.Header.Values("Attestd-Passport")) > 1 {
		return passportBody{}, twice(header)
	}
	if presented == "" {
		return passportBody{}, fail(http.StatusBadRequest, "Missing "+header+" passport header")
	}
	old, err := s.ownPassport(ctx, by, presented, r.AgentID)
	if err != nil {
		return passportBody{}, err
	}
	if err := s.Store.CheckAgent(ctx, by, r.AgentID); err != nil {
		return passportBody{}, agentError(r.AgentID, err)
	}
	ttl := time.Duration(old.ExpiresAt-old.IssuedAt) * time.Second
	token, next, err := issuer.Passport(r.AgentID, old.Scopes, old.DelegationChain, ttl, by.At)
	if err != nil {
		return passportBody{}, refusedToken("passport", err)
	}
	err = store.ErrNotAsIssued
	if couldIssue(old) {
		err = s.Store.RotatePassport(ctx, by, recorded(old), recorded(next))
	}
	switch {
	case errors.Is(err, store.ErrNotAsIssued):
		refused := notAsIssued()
		return passportBody{}, &apiError{Status: http.StatusUnauthorized, Message: refused.Message, Code: refused.Code}
	case errors.Is(err, store.ErrRevoked):
		return passportBody{}, &apiError{Status: http.StatusConflict, Message: "Passport has already been revoked", Code: cred.CodePassportRevoked}
	case errors.Is(err, store.ErrNotFound):
		return passportBody{}, &apiError{Status: http.StatusUnauthorized, Message: "Passport is not known to have been issued", Code: cred.CodeVerificationError}
	case err != nil:
		return passportBody{}, agentError(r.AgentID, err)
	}
	answer := newPassportBody(by, token, next)
	answer.RotatedFrom = old.ID
	return answer, nil
}

// ownPassport checks a passport and that it is the agent's and the company's own.
func (s *Server) ownPassport(ctx context.Context, by store.Caller, token, agentID string) (cred.PassportClaims, error) {
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	var refused *cred.Error
	if errors.As(err, &refused) {
		if refused.Code == cred.CodeSignatureInvalid && s.isOfAnotherCompany(ctx, by, token) {
			return claims, fail(http.StatusForbidden, "Passport was not issued by the authenticated company")
		}
		return claims, &apiError{Status: http.StatusUnauthorized, Message: refused.Message, Code: refused.Code}
	}
	if err != nil {
		return claims, err
	}
	// which is the agent of its subject, or the passport would not have passed
	if claims.AgentID != agentID {
		return claims, fail(http.StatusForbidden, "Passport does not belong to the specified agent")
	}
	return claims, nil
}

// isOfAnotherCompany says whether a passport that is not ours verifies under the key of the local
// company that it names.
func (s *Server) isOfAnotherCompany(ctx context.Context, by store.Caller, token string) bool {
	org, ok := by.Company.Issuer.Domain.UnverifiedOrg(token)
	if !ok || org == by.Company.ID {
		return false
	}
	other, err := s.Store.Company(ctx, org)
	if err != nil {
		return false
	}
	_, err = other.Issuer.CheckPassport(token, by.At)
	return err == nil
}
