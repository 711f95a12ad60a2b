package service

import (
	"context"
	"errors"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/store"
)

// VerifiedPassport is a passport that is in force, with what it grants.
type VerifiedPassport struct {
	Valid        bool                `json:"valid"`
	Claims       cred.PassportClaims `json:"claims"`
	ScopeGranted string              `json:"scopeGranted"`
	Receipt      Receipt             `json:"receipt"`
}

// Receipt is the AttestationReceipt of the specification.
type Receipt struct {
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

// Verify checks a passport, and that it covers a tool; nil for any. What is wrong with it is an
// *Error with the code of the check that it has failed.
func (p *Passports) Verify(ctx context.Context, by store.Caller, token string, tool *string) (VerifiedPassport, error) {
	var scope string
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	if err == nil {
		scope, err = claims.Grant(tool)
	}
	if err == nil {
		err = p.inForce(ctx, by, claims)
	}
	if err != nil {
		return VerifiedPassport{}, untrusted(Invalid, err)
	}
	return VerifiedPassport{true, claims, scope, p.receipt(by, claims, tool, scope)}, nil
}

// inForce refuses a passport that is revoked, that this company has no record of having issued (it
// may have been issued after the backup that was restored, and revoked too), or that says something
// else than the one that was issued: whoever has the signing key can sign any claims under an ID
// that was issued.
func (p *Passports) inForce(ctx context.Context, by store.Caller, claims cred.PassportClaims) error {
	if !couldIssue(claims) {
		return notAsIssued
	}
	err := p.Store.Passports.Check(ctx, by, recorded(claims))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return notIssued
	case errors.Is(err, store.ErrNotAsIssued):
		return notAsIssued
	case errors.Is(err, store.ErrRevoked):
		return isRevoked
	}
	return err
}

func (p *Passports) receipt(by store.Caller, claims cred.PassportClaims, tool *string, scope string) Receipt {
	checked := "(not checked)"
	if tool != nil {
		checked = *tool
	}
	return Receipt{
		V: 1, Type: by.Company.Issuer.Domain.ReceiptType(), PassportID: claims.ID,
		AgentID: claims.AgentID, AgentSPIFFEID: claims.Subject, Org: claims.Org, OrgSPIFFEID: claims.OrgSPIFFEID,
		Tool: checked, ScopeGranted: scope, DelegationChain: claims.DelegationChain, IssuedBy: claims.Issuer,
		PassportIssuedAt: unixTime(claims.IssuedAt), PassportExpiresAt: unixTime(claims.ExpiresAt),
		VerifiedAt: chain.FormatTime(by.At), Verifier: p.Verifier,
	}
}
