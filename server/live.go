package server

import (
	"context"

	"attestd/server/limit"
	"attestd/store/ledger"
)

// Live are the settings that Reload can change while the server runs.
type Live struct {
	Limits         limit.Limits // requests a minute
	Registration   Registration
	AllowedOrigins []string      // URLs of pages elsewhere that may use the API from a browser
	Bounds         Bounds        // of what a company may have
	Quotas         ledger.Quotas // of what companies may have
	// free bytes on the disk of the database below which the server is not ready; 0 for no bound
	DiskFloor int64
	AccessLog AccessLog
}

// live are the settings in force.
type live struct {
	Live
	origins []string // of pages that are ours, beside those of this machine
}

func newLive(l Live, baseURL string) *live {
	with := &live{Live: l}
	for _, page := range append(l.AllowedOrigins[:len(l.AllowedOrigins):len(l.AllowedOrigins)], baseURL) {
		if origin := originOf(page); origin != "" {
			with.origins = append(with.origins, origin)
		}
	}
	return with
}

// Reload takes other settings into use, for requests that come after it, and then records them in
// the control logs. It MUST be called while Run runs, and not concurrently.
func (s *Server) Reload(ctx context.Context, to Live) {
	s.live.Store(newLive(to, s.BaseURL))
	s.limiter.SetLimits(to.Limits)
	s.Store.SetQuotas(to.Quotas)
	s.recordStart(ctx)
}

// inForce returns the configuration with the settings in force, which Config of a server has not.
func (s *Server) inForce() Config {
	c := s.Config
	c.Live = s.live.Load().Live
	return c
}
