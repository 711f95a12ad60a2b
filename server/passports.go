package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store"
)

type issuePassportRequest struct {
	AgentID string   `path:"agentId"`
	Scopes  []string `json:"scopes" must:"scopes"`
	TTL     int64    `json:"ttl" must:"number 1..86400" default:"3600"`
}

var defaultScopes = []string{"tool:*", "attest:write"}

// passportBody is the answer to issuance and rotation.
type passportBody struct {
	AgentID         string   `json:"agentId"`
	SPIFFEID        string   `json:"spiffeId"`
	Org             string   `json:"org"`
	OrgSPIFFEID     string   `json:"orgSpiffeId"`
	Scopes          []string `json:"scopes"`
	DelegationChain []string `json:"delegationChain"`
	Passport        string   `json:"passport" must:"checked"`
	ExpiresIn       int64    `json:"expiresIn"`
	CAPublicKey     string   `json:"caPublicKey"`
	RotatedFrom     string   `json:"rotatedFrom,omitempty"`
}

func newPassportBody(by store.Caller, token string, p cred.PassportClaims) passportBody {
	return passportBody{
		AgentID: p.AgentID, SPIFFEID: p.Subject, Org: p.Org, OrgSPIFFEID: p.OrgSPIFFEID,
		Scopes: p.Scopes, DelegationChain: p.DelegationChain,
		Passport: token, ExpiresIn: p.ExpiresAt - p.IssuedAt, CAPublicKey: by.Company.Issuer.Public.PEM,
	}
}

// recorded is what the store keeps of a passport.
func recorded(p cred.PassportClaims) store.Passport {
	return store.Passport{JTI: p.ID, AgentID: p.AgentID, Scopes: p.Scopes, IssuedAt: p.IssuedAt, ExpiresAt: p.ExpiresAt}
}

func (s *Server) issuePassport(ctx context.Context, by store.Caller, r issuePassportRequest) (passportBody, error) {
	if err := s.Store.CheckAgent(ctx, by, r.AgentID); err != nil {
		return passportBody{}, agentError(r.AgentID, err)
	}
	if r.Scopes == nil {
		r.Scopes = defaultScopes
	}
	token, claims, err := by.Company.Issuer.Passport(r.AgentID, r.Scopes, nil, time.Duration(r.TTL)*time.Second, by.At)
	if err != nil {
		return passportBody{}, refusedToken("scopes", err)
	}
	if err := s.Store.RecordPassport(ctx, by, recorded(claims)); err != nil {
		return passportBody{}, agentError(r.AgentID, err)
	}
	return newPassportBody(by, token, claims), nil
}

type verifyPassportRequest struct {
	Passport jsontext.Value `json:"passport" must:"checked"`
	Tool     jsontext.Value `json:"tool"`
}

type passportVerified struct {
	Valid        bool                `json:"valid"`
	Claims       cred.PassportClaims `json:"claims"`
	ScopeGranted string              `json:"scopeGranted"`
	Receipt      receipt             `json:"receipt"`
}

// verifyPassport answers every reason to refuse a passport in one form, what is wrong with the
// request included.
func (s *Server) verifyPassport(ctx context.Context, by store.Caller, r verifyPassportRequest) (passportVerified, error) {
	token, _ := asText(r.Passport)
	tool, given := asText(r.Tool)
	if !given && !isAbsent(r.Tool) {
		return passportVerified{}, invalidPassport(cred.CodeVerificationError, "tool must be a non-empty string")
	}
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	var asked *string
	if given {
		asked = &tool
	}
	var scope string
	if err == nil {
		scope, err = claims.Grant(asked)
	}
	if err == nil {
		err = s.inForce(ctx, by, claims)
	}
	var refused *cred.Error
	switch {
	case errors.As(err, &refused):
		return passportVerified{}, invalidPassport(refused.Code, refused.Message)
	case err != nil:
		return passportVerified{}, err
	}
	return passportVerified{true, claims, scope, s.receipt(by, claims, asked, scope)}, nil
}

// invalidPassport is the answer to a passport that does not verify.
func invalidPassport(code, message string) error {
	return &apiError{Status: http.StatusBadRequest, Message: message, Body: struct {
		Valid bool   `json:"valid"`
		Error string `json:"error"`
		Code  string `json:"code"`
	}{false, message, code}}
}

// inForce refuses a passport that is revoked, that this company has no record of having issued (it
// may have been issued after the backup that was restored, and revoked too), or that says something
// else than the one that was issued: whoever has the signing key can sign any claims under an ID
// that was issued.
func (s *Server) inForce(ctx context.Context, by store.Caller, p cred.PassportClaims) error {
	if !couldIssue(p) {
		return notAsIssued()
	}
	err := s.Store.CheckPassport(ctx, by, recorded(p))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &cred.Error{Code: cred.CodeVerificationError, Message: "Passport is not known to have been issued"}
	case errors.Is(err, store.ErrNotAsIssued):
		return notAsIssued()
	case errors.Is(err, store.ErrRevoked):
		return &cred.Error{Code: cred.CodePassportRevoked, Message: "Passport has been revoked"}
	}
	return err
}

// couldIssue checks the claims that are not recorded of a passport, for they are the same for all:
// it is valid from when it was issued, and its agent acts for the company alone.
func couldIssue(p cred.PassportClaims) bool {
	return p.NotBefore == p.IssuedAt && slices.Equal(p.DelegationChain, []string{p.OrgSPIFFEID, p.Subject})
}

func notAsIssued() *cred.Error {
	return &cred.Error{Code: cred.CodeVerificationError, Message: "Passport is not the one that was issued under its ID"}
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

func (s *Server) receipt(by store.Caller, p cred.PassportClaims, tool *string, scope string) receipt {
	checked := "(not checked)"
	if tool != nil {
		checked = *tool
	}
	return receipt{
		V: 1, Type: by.Company.Issuer.Domain.ReceiptType(), PassportID: p.ID,
		AgentID: p.AgentID, AgentSPIFFEID: p.Subject, Org: p.Org, OrgSPIFFEID: p.OrgSPIFFEID,
		Tool: checked, ScopeGranted: scope, DelegationChain: p.DelegationChain, IssuedBy: p.Issuer,
		PassportIssuedAt: unixTime(p.IssuedAt), PassportExpiresAt: unixTime(p.ExpiresAt),
		VerifiedAt: chain.FormatTime(by.At), Verifier: "attestd/" + s.Version,
	}
}

func unixTime(seconds int64) string { return chain.FormatTime(time.Unix(seconds, 0)) }

type passportItem struct {
	JTI       string   `json:"jti"`
	AgentID   string   `json:"agentId"`
	Scopes    []string `json:"scopes"`
	IssuedAt  string   `json:"issuedAt"`
	ExpiresAt string   `json:"expiresAt"`
	Status    string   `json:"status"`
	RevokedAt string   `json:"revokedAt,omitempty"`
	Reason    *string  `json:"reason,omitempty"`

	cursor string
}

type passportsRequest struct {
	Limit  int    `query:"limit" must:"number 1..1000" default:"100"`
	Cursor string `query:"cursor"`
	Agent  string `query:"agent"`
	Status string `query:"status" must:"oneof valid revoked expired"`
}

// listPassports is an addition to the specification: a page of issued passports, the newest first.
func (s *Server) listPassports(ctx context.Context, by store.Caller, r passportsRequest) (list[passportItem], error) {
	found, rest, err := s.Store.Passports(ctx, by, store.PassportFilter{AgentID: r.Agent, Status: r.Status}, r.Cursor)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return list[passportItem]{}, fail(http.StatusBadRequest, "Invalid query parameter: cursor must be the next of an earlier page")
	case err != nil:
		return list[passportItem]{}, err
	}
	show := func(p store.Passport) passportItem {
		return passportItem{p.JTI, p.AgentID, p.Scopes, unixTime(p.IssuedAt), unixTime(p.ExpiresAt), p.Status(by.At), p.RevokedAt, p.Reason, p.Cursor()}
	}
	return list[passportItem]{
		name: "passports", items: mapped(found, show),
		most: r.Limit, next: func(p passportItem) string { return p.cursor }, rest: rest,
	}, nil
}

// refusedToken makes a 400 of the reason why what should become a token is refused.
func refusedToken(field string, err error) error {
	var refused *cred.Error
	if errors.As(err, &refused) {
		return fail(http.StatusBadRequest, "Invalid "+field+": "+refused.Message)
	}
	return err
}
