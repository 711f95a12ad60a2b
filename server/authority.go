package server

import (
	"context"
	"errors"
	"net/http"

	"attestd/store"
)

type authorityRequest struct {
	Index string `path:"index"`
	JTI   string `query:"jti"`
}

// authority says what the control log knows of whether an action was allowed when it happened.
func (s *Server) authority(ctx context.Context, by store.Caller, r authorityRequest) (store.Authority, error) {
	index, ok := decimal(r.Index)
	if !ok {
		return store.Authority{}, fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	a, err := s.Store.Authority(ctx, by, index, r.JTI)
	if errors.Is(err, store.ErrNotFound) {
		return a, fail(http.StatusNotFound, "Index out of bounds: the chain has no such record")
	}
	return a, err
}
