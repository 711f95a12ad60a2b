package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"attestd/service"
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

type ocspRequest struct {
	JTI string `path:"jti"`
}

type ocspAnswer struct{ service.SignedStatus }

// setHeader lets caches keep the status as long as the specification says, and none of them for
// another credential: who may ask is decided by it. A status that is unknown may change at any
// moment.
func (a ocspAnswer) setHeader(h http.Header) {
	if a.IsKnown() {
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Vary", "Authorization")
	}
}

// ocsp answers with a signed status, which is never "valid" for what this company has not issued.
func (s *Server) ocsp(ctx context.Context, by store.Caller, r ocspRequest) (ocspAnswer, error) {
	status, err := s.passports.Status(ctx, by, r.JTI)
	return ocspAnswer{status}, err
}
