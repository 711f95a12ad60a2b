package api

import (
	"context"
	"net/http"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

type authorityRequest struct {
	Index string `path:"index"`
	JTI   string `query:"jti" must:"given"`
}

// Authority returns what the control log says about whether an action was allowed when it happened.
func (s *Evidence) Authority(ctx context.Context, by store.Caller, r authorityRequest) (service.Authority, error) {
	index, ok := httpapi.Decimal(r.Index)
	if !ok {
		return service.Authority{}, httpapi.Fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	return s.Proofs.Authority(ctx, by, index, r.JTI)
}
