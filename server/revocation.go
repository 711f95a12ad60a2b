package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"attestd/chain"
	"attestd/crypto/jcs"
	"attestd/store"
)

type revokePassportRequest struct {
	JTI    string  `path:"jti"`
	Reason *string `json:"reason" must:"text"`
}

// revocation is the revocation record of the specification.
type revocation struct {
	JTI       string  `json:"jti"`
	RevokedAt string  `json:"revokedAt"`
	Reason    *string `json:"reason,omitempty"`
}

func newRevocation(p store.Passport) revocation { return revocation{p.JTI, p.RevokedAt, p.Reason} }

func (s *Server) revokePassport(ctx context.Context, by store.Caller, r revokePassportRequest) (revocation, error) {
	jti := strings.TrimSpace(r.JTI)
	if jti == "" {
		return revocation{}, fail(http.StatusBadRequest, "Missing passport ID")
	}
	p, err := s.Store.RevokePassport(ctx, by, jti, r.Reason)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return revocation{}, &apiError{Status: http.StatusNotFound, Message: "Passport not found: this company has issued none with that ID", Code: "PASSPORT_NOT_FOUND"}
	case errors.Is(err, store.ErrRevoked):
		return revocation{}, fail(http.StatusConflict, "Passport is already revoked")
	}
	return newRevocation(p), err
}

func (s *Server) revokedPassports(ctx context.Context, by store.Caller, _ none) (list[revocation], error) {
	return list[revocation]{name: "revoked", items: mapped(s.Store.RevokedPassports(ctx, by), newRevocation)}, nil
}

// status is what an OCSP answer says. Its signature covers the canonical form of exactly these
// members.
type status struct {
	JTI       string  `json:"jti"`
	CompanyID string  `json:"companyId"`
	Status    string  `json:"status"` // valid, revoked or unknown
	CheckedAt string  `json:"checkedAt"`
	RevokedAt string  `json:"revokedAt,omitempty"`
	Reason    *string `json:"reason,omitempty"`
}

type ocspRequest struct {
	JTI string `path:"jti"`
}

type ocspAnswer struct {
	status
	CAPublicKey string `json:"caPublicKey"`
	Signature   string `json:"signature"`
}

// setHeader lets caches keep the status as long as the specification says, and none of them for
// another credential: who may ask is decided by it. A status that is unknown may change at any
// moment.
func (a ocspAnswer) setHeader(h http.Header) {
	if a.Status != "unknown" {
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Vary", "Authorization")
	}
}

// ocsp answers with a signed status, which is never "valid" for what this company has not issued.
func (s *Server) ocsp(ctx context.Context, by store.Caller, r ocspRequest) (ocspAnswer, error) {
	st := status{JTI: r.JTI, CompanyID: by.Company.ID, Status: "valid", CheckedAt: chain.FormatTime(by.At)}
	revoked, err := s.Store.PassportRevoked(ctx, by, r.JTI)
	if revoked {
		var p store.Passport
		p, err = s.Store.Passport(ctx, by, r.JTI)
		st.Status, st.RevokedAt, st.Reason = "revoked", p.RevokedAt, p.Reason
	}
	if errors.Is(err, store.ErrNotFound) {
		st.Status, err = "unknown", nil
	}
	if err != nil {
		return ocspAnswer{}, err
	}
	plain, err := json.Marshal(st)
	if err != nil {
		return ocspAnswer{}, err
	}
	canonical, err := jcs.Append(nil, plain, maxDepth)
	if err != nil {
		return ocspAnswer{}, err
	}
	issuer := by.Company.Issuer
	return ocspAnswer{st, issuer.Public.PEM, issuer.Sign(sha256.Sum256(canonical))}, nil
}
