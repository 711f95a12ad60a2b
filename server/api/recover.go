package api

import (
	"context"
	"errors"
	"net/http"

	"attestd/crypto/cred"
	"attestd/server/httpapi"
	"attestd/store"
)

type recoverKeyRequest struct {
	CompanyID string `json:"companyId" must:"string"`
}

// RecoverKey returns the first API key of a company. It MUST be guarded by LocalOnly.
func (s *Companies) RecoverKey(ctx context.Context, by store.Caller, r recoverKeyRequest) (keyBody, error) {
	if cred.CheckSegment(r.CompanyID) != nil {
		return keyBody{}, httpapi.Fail(http.StatusBadRequest, "Missing or invalid field: companyId is required")
	}
	first, err := s.Store.Credentials.RecoverKey(ctx, r.CompanyID, store.RecoveredByHTTP, by.At)
	if errors.Is(err, store.ErrNotFound) {
		err = httpapi.Fail(http.StatusNotFound, "No API keys found for company: "+r.CompanyID)
	}
	return newKeyBody(first), err
}

// LocalOnly admits only callers on this machine who can also read the file. The error says why not.
func (s *Companies) LocalOnly(c *httpapi.Call) error {
	if why := s.notLocal(c.Request); why != "" {
		return httpapi.Fail(http.StatusForbidden, "Forbidden: "+why+"; or use: attestd recover-key")
	}
	return nil
}

// notLocal returns why a request does not seem to come from this machine and the owner of the
// server, or "". It combines several signs, because a proxy, a tunnel or a web page can fake any
// single one.
func (s *Companies) notLocal(r *http.Request) string {
	switch {
	case !s.MayRecover:
		return "this endpoint is switched off"
	case !s.API.Listening.Addr().IsLoopback() || s.API.BaseURL != "" || len(s.API.TrustedProxies) > 0:
		return "this endpoint is off where the server listens on more than loopback, or --base-url or --trusted-proxies is set"
	case !httpapi.IsLocal(r):
		return "only for callers on this machine that come without a proxy"
	case !httpapi.SameUser(r):
		return "only for processes of root or of the server's own user"
	}
	return ""
}
