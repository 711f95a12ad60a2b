package api

import (
	"context"
	"net/http"
	"strings"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

type revokePassportRequest struct {
	JTI    string  `path:"jti"`
	Reason *string `json:"reason" must:"text"`
}

func (s *Passports) Revoke(
	ctx context.Context, by store.Caller, r revokePassportRequest,
) (service.Revocation, error) {
	jti := strings.TrimSpace(r.JTI)
	if jti == "" {
		return service.Revocation{}, httpapi.Fail(http.StatusBadRequest, "Missing passport ID")
	}
	return s.Passports.Revoke(ctx, by, jti, r.Reason)
}

func (s *Passports) Revoked(ctx context.Context, by store.Caller, _ httpapi.None) (httpapi.List[service.Revocation], error) {
	return httpapi.List[service.Revocation]{Name: "revoked", Items: s.Passports.Revoked(ctx, by)}, nil
}

type ocspRequest struct {
	JTI string `path:"jti"`
}

type ocspAnswer struct{ service.SignedStatus }

// SetHeader lets caches store the status as long as the specification says, but not for other
// credentials, which may not be permitted to ask. An unknown status may change at any time, and is
// not cached.
func (a ocspAnswer) SetHeader(h http.Header) {
	if a.IsKnown() {
		h.Set("Cache-Control", "public, max-age=300")
		h.Set("Vary", "Authorization")
	}
}

// OCSP returns a signed status, which is never "valid" for a passport that this company has not
// issued.
func (s *Passports) OCSP(ctx context.Context, by store.Caller, r ocspRequest) (ocspAnswer, error) {
	status, err := s.Passports.Status(ctx, by, r.JTI)
	return ocspAnswer{status}, err
}
