package server

import (
	"context"

	"attestd/server/httpapi"
	"attestd/server/limit"
	"attestd/store"
)

// Live are the settings that Reload can change while the server runs.
type Live struct {
	Limits         limit.Limits // requests a minute
	Registration   Registration
	AllowedOrigins []string     // URLs of pages elsewhere that may use the API from a browser
	Bounds         Bounds       // of what a company may have
	Quotas         store.Quotas // of what companies may have
	// free bytes on the disk of the database below which the server is not ready; 0 for no bound
	DiskFloor int64
	AccessLog httpapi.AccessLog
}

// Reload takes other settings into use, for requests that come after it, and then records them in
// the control logs. It MUST be called while Run runs, and not concurrently.
func (s *Server) Reload(ctx context.Context, to Live) {
	s.live.Store(&to)
	s.api.Set(to.AllowedOrigins, to.AccessLog)
	s.api.Limiter.SetLimits(to.Limits)
	s.Store.Companies.SetQuotas(to.Quotas)
	s.recordStart(ctx)
}
