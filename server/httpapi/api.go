// Package httpapi has what all routes of the HTTP API share. It counts a request against the
// limits, identifies the caller, reads the request by the form of its route, and turns the outcome
// or an error into an answer; Classify is the one place where an error gets its status. It knows no
// resource: packages api and server import it, and it imports neither. A newcomer begins with
// Handle in handle.go and EndpointOf in endpoint.go.
package httpapi

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"attestd/server/https"
	"attestd/server/limit"
	"attestd/server/metrics"
	"attestd/server/trace"
	"attestd/service"
	"attestd/store"
)

// API is what all routes share: how a request is counted, read, attributed to its caller and
// answered.
type API struct {
	Store *store.Store
	Log   *slog.Logger
	// public address without a trailing slash; "" infers it from each request
	BaseURL        string
	TrustedProxies []netip.Prefix   // peers whose forwarding headers count
	MaxBody        int64            // bytes
	IsTLS          bool             // whether the listener speaks TLS
	ClientCAs      *https.ClientCAs // whose client certificates say who asks; nil asks for none
	Limiter        *limit.Limiter
	Bodies         *limit.Pool // of bytes
	Decoding       *limit.Decoding
	Metrics        *metrics.Metrics // nil for none
	Traces         *trace.Tracer    // nil for none

	// who know credentials
	Tokens    *service.Tokens
	AgentKeys *service.AgentKeys
	Agents    *service.Agents
	Nonces    *service.Nonces
	Refusals  *service.Refusals

	// the address of the listener; set before anything is served
	Listening netip.AddrPort

	origins   atomic.Pointer[[]string] // of the server's pages, in addition to local ones
	accessLog atomic.Int64             // an AccessLog
	sampled   sampler                  // of the lines of requests
}

// Set applies settings that may change while requests are served: the pages elsewhere that may use
// the API from a browser, and which requests have a line in the log.
func (a *API) Set(allowedOrigins []string, lines AccessLog) {
	var origins []string
	for _, page := range append(slices.Clip(allowedOrigins), a.BaseURL) {
		if origin := originOf(page); origin != "" {
			origins = append(origins, origin)
		}
	}
	a.origins.Store(&origins)
	a.accessLog.Store(int64(lines))
}
