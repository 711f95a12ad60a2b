package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store"
)

var defaultScopes = []string{"tool:*", "attest:write"}

// passportBody is the answer to issuance and rotation.
type passportBody struct {
	AgentID         string   `json:"agentId"`
	SPIFFEID        string   `json:"spiffeId"`
	Org             string   `json:"org"`
	OrgSPIFFEID     string   `json:"orgSpiffeId"`
	Scopes          []string `json:"scopes"`
	DelegationChain []string `json:"delegationChain"`
	Passport        string   `json:"passport"`
	ExpiresIn       int64    `json:"expiresIn"`
	CAPublicKey     string   `json:"caPublicKey"`
	RotatedFrom     string   `json:"rotatedFrom,omitempty"`
}

func newPassportBody(c *call, token string, p cred.PassportClaims) passportBody {
	return passportBody{
		AgentID: p.AgentID, SPIFFEID: p.Subject, Org: p.Org, OrgSPIFFEID: p.OrgSPIFFEID,
		Scopes: p.Scopes, DelegationChain: p.DelegationChain,
		Passport: token, ExpiresIn: p.ExpiresAt - p.IssuedAt, CAPublicKey: c.company.Issuer.Public.PEM,
	}
}

// recorded is what the store keeps of a passport.
func recorded(p cred.PassportClaims) store.Passport {
	return store.Passport{JTI: p.ID, AgentID: p.AgentID, Scopes: p.Scopes, IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt}
}

func (s *Server) issuePassport(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	scopes, err := o.scopes()
	if err != nil {
		return err
	}
	ttl, err := o.ttl()
	if err != nil {
		return err
	}
	agent, err := c.agent()
	if err != nil {
		return err
	}
	token, claims, err := c.company.Issuer.Passport(agent.ID, scopes, nil, ttl, c.now)
	if err != nil {
		return refusedToken("scopes", err)
	}
	if err := s.Store.RecordPassport(c.Context(), c.company, recorded(claims)); err != nil {
		return err
	}
	return c.secret(http.StatusCreated, newPassportBody(c, token, claims))
}

func (o object) scopes() ([]string, error) {
	if !o.has("scopes") {
		return defaultScopes, nil
	}
	var scopes []*string // pointers, for null is no string
	if json.Unmarshal(o["scopes"], &scopes) != nil {
		return nil, fail(http.StatusBadRequest, "Invalid field: scopes must be an array of strings")
	}
	given := make([]string, len(scopes))
	for i, scope := range scopes {
		if scope == nil {
			return nil, fail(http.StatusBadRequest, "Invalid field: scopes must be an array of strings")
		}
		given[i] = *scope
	}
	if err := cred.CheckScopes(given); err != nil {
		return nil, fail(http.StatusBadRequest, "Invalid field: scopes: "+err.Error())
	}
	return given, nil
}

func (o object) ttl() (time.Duration, error) {
	if !o.has("ttl") {
		return cred.DefaultPassportTTL, nil
	}
	var seconds float64 // 60.0 and 6e1 are the integer 60 in JSON
	most := cred.MaxPassportTTL.Seconds()
	if o["ttl"].Kind() != '0' || json.Unmarshal(o["ttl"], &seconds) != nil ||
		seconds < 1 || seconds > most || seconds != float64(int(seconds)) {
		return 0, fail(http.StatusBadRequest, fmt.Sprintf("Invalid field: ttl must be a whole number of seconds from 1 to %d", int(most)))
	}
	return time.Duration(seconds) * time.Second, nil
}

// invalidPassport is the answer to a passport that does not verify.
type invalidPassport struct {
	Valid bool   `json:"valid"`
	Error string `json:"error"`
	Code  string `json:"code"`
}

func (s *Server) verifyPassport(c *call) error {
	o, err := c.object()
	if err != nil {
		return err
	}
	token, _ := o.text("passport")
	tool, err := o.optional("tool")
	if err != nil || tool != nil && *tool == "" {
		return c.json(http.StatusBadRequest, invalidPassport{Error: "tool must be a non-empty string", Code: cred.CodeVerificationError})
	}
	claims, err := c.company.Issuer.CheckPassport(token, c.now)
	var scope string
	if err == nil {
		scope, err = claims.Grant(tool)
	}
	if err == nil {
		err = c.inForce(claims)
	}
	var refused *cred.Error
	switch {
	case errors.As(err, &refused):
		return c.json(http.StatusBadRequest, invalidPassport{Error: refused.Message, Code: refused.Code})
	case err != nil:
		return err
	}
	return c.json(http.StatusOK, struct {
		Valid        bool                `json:"valid"`
		Claims       cred.PassportClaims `json:"claims"`
		ScopeGranted string              `json:"scopeGranted"`
		Receipt      receipt             `json:"receipt"`
	}{true, claims, scope, s.receipt(c, claims, tool, scope)})
}

// inForce refuses a passport that is revoked, or that this company has no record of having issued: it may have been
// issued after the backup that was restored, and revoked too.
func (c *call) inForce(p cred.PassportClaims) error {
	issued, err := c.s.Store.Passport(c.Context(), c.company, p.ID, c.now)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &cred.Error{Code: cred.CodeVerificationError, Message: "Passport is not known to have been issued"}
	case err != nil:
		return err
	case issued.RevokedAt != "":
		return &cred.Error{Code: cred.CodePassportRevoked, Message: "Passport has been revoked"}
	}
	return nil
}

// receipt is the AttestationReceipt of the specification.
type receipt struct {
	V                 int      `json:"v"`
	Type              string   `json:"type"`
	PassportID        string   `json:"passportId"`
	AgentID           string   `json:"agentId"`
	AgentSPIFFEID     string   `json:"agentSpiffeId"`
	Org               string   `json:"org"`
	OrgSPIFFEID       string   `json:"orgSpiffeId"`
	Tool              string   `json:"tool"`
	ScopeGranted      string   `json:"scopeGranted"`
	DelegationChain   []string `json:"delegationChain"`
	IssuedBy          string   `json:"issuedBy"`
	PassportIssuedAt  string   `json:"passportIssuedAt"`
	PassportExpiresAt string   `json:"passportExpiresAt"`
	VerifiedAt        string   `json:"verifiedAt"`
	Verifier          string   `json:"verifier"`
}

func (s *Server) receipt(c *call, p cred.PassportClaims, tool *string, scope string) receipt {
	checked := "(not checked)"
	if tool != nil {
		checked = *tool
	}
	return receipt{
		V: 1, Type: c.company.Issuer.Domain.ReceiptType(), PassportID: p.ID,
		AgentID: p.AgentID, AgentSPIFFEID: p.Subject, Org: p.Org, OrgSPIFFEID: p.OrgSPIFFEID,
		Tool: checked, ScopeGranted: scope, DelegationChain: p.DelegationChain, IssuedBy: p.Issuer,
		PassportIssuedAt: unixTime(p.IssuedAt), PassportExpiresAt: unixTime(p.ExpiresAt),
		VerifiedAt: chain.FormatTime(c.now), Verifier: "attestd/" + s.Version,
	}
}

func unixTime(seconds int64) string { return chain.FormatTime(time.Unix(seconds, 0)) }
