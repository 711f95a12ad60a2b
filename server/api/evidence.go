package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"attestd/server/httpapi"
	"attestd/service"
	"attestd/store"
)

// Evidence are what proves records offline: files, reports and sessions.
type Evidence struct {
	Store     *store.Store
	Proofs    *service.Evidence
	AgentKeys *service.AgentKeys
}

type evidenceRequest struct {
	Index string        `path:"index"`
	Log   store.LogName `query:"log" must:"log"`
	JTI   string        `query:"jti" must:"given"`
}

// File returns an evidence file, which proves offline to which company a record belongs and its
// place in the log.
func (s *Evidence) File(ctx context.Context, by store.Caller, r evidenceRequest) (httpapi.File, error) {
	index, ok := httpapi.Decimal(r.Index)
	if !ok {
		return httpapi.File{}, httpapi.Fail(http.StatusBadRequest, "index must be a non-negative integer")
	}
	if id, err := uuid.Parse(r.JTI); r.JTI != "" && (err != nil || id.String() != r.JTI || r.Log == store.Control) {
		return httpapi.File{}, httpapi.Fail(http.StatusBadRequest,
			"Invalid query parameter: jti must be a UUID in lower case, and goes with the actions alone")
	}
	text, err := s.Proofs.File(ctx, by, r.Log, index, r.JTI)
	return httpapi.File{ContentType: "application/json", Caching: "no-store", Content: text}, err
}
