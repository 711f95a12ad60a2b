package service

import (
	"context"
	"errors"

	"attestd/chain"
	"attestd/crypto/cred"
	"attestd/crypto/dpop"
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

// ToolCall is the request with which a passport was presented, to whoever verifies it.
type ToolCall struct {
	Method, URL string
	Proof       string // DPoP; "" without one
}

// Verify checks a passport, and that it covers a tool; nil for any. A passport that is bound to a
// key needs a proof of that key for the call with which it came. What is wrong is an *Error with
// the code of the check that has failed.
func (p *Passports) Verify(ctx context.Context, by store.Caller, token string, tool *string, call ToolCall) (VerifiedPassport, error) {
	var scope string
	claims, err := by.Company.Issuer.CheckPassport(token, by.At)
	if err == nil {
		scope, err = claims.Grant(tool)
	}
	if err == nil {
		err = p.inForce(ctx, by, claims)
	}
	if err == nil {
		err = p.proven(ctx, by, token, claims, call)
	}
	if err != nil {
		return VerifiedPassport{}, untrusted(Invalid, err)
	}
	return VerifiedPassport{true, claims, scope, p.receipt(by, claims, tool, scope)}, nil
}

// proven requires of a passport that is bound to a key that whoever presented it holds that key,
// which the agent still has. A proof counts once.
func (p *Passports) proven(ctx context.Context, by store.Caller, token string, claims cred.PassportClaims, call ToolCall) error {
	switch {
	case claims.JKT == "" && call.Proof == "":
		return nil
	case claims.JKT == "":
		return notProven("a proof was sent, and the passport is bound to no key")
	case call.Proof == "":
		return notProven("the passport is bound to a key: send the DPoP proof that came with it as proof, with htm and htu of that request")
	}
	proof, err := dpop.Check(call.Proof, dpop.Request{Method: call.Method, URL: call.URL, AccessToken: token}, claims.JKT, by.At)
	if err != nil {
		return notProven(err.Error())
	}
	if _, err := p.Keys.live(ctx, by, claims.AgentID, claims.JKT); errors.Is(err, store.ErrNotFound) {
		return notProven("the key that the passport is bound to is no live key of the agent")
	} else if err != nil {
		return err
	}
	err = p.Store.Credentials.Use(ctx, UsedProof(&proof), by.At)
	if errors.Is(err, store.ErrUsed) {
		return notProven("the proof was used before")
	}
	return err
}

func notProven(why string) error {
	return &cred.Error{Code: codeNotProven, Message: "Passport is not proven: " + why}
}

const codeNotProven = "NOT_PROVEN"

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
