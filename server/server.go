// Package server is the HTTP API: routes, identity, limits, the stream, and the one place where an error becomes a response.
package server

import (
	"log/slog"
	"net/netip"
	"strings"

	"attestd/chain"
	"attestd/server/limit"
	"attestd/server/stream"
	"attestd/store"
)

// Config is all that a Server needs to know.
type Config struct {
	Store           *store.Store
	Version         string         // shown in receipts and discovery
	BaseURL         string         // public address without a trailing slash; "" infers it from each request
	Limits          limit.Limits   // requests a minute
	TrustedProxies  []netip.Prefix // peers whose forwarding headers count
	Stream          stream.Mode
	MaxBody         int64 // bytes
	RecoverEndpoint bool  // whether POST /v1/recover-key exists for loopback callers
	Log             *slog.Logger
}

// Server answers the API. Run starts and stops everything it needs.
type Server struct {
	Config
	chains   *chain.Log
	monitor  *chain.Monitor
	verifier *chain.Verifier
	limiter  *limit.Limiter
	hub      *stream.Hub
	verifies chan struct{} // a token for each GET /v1/verify under way: each takes all cores
}

const maxVerifies = 2

// New wires a server; nothing runs and nothing is listened on before Run.
func New(cfg Config) *Server {
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	s := &Server{Config: cfg, limiter: limit.New(cfg.Limits)}
	s.verifier = chain.NewVerifier(cfg.Store, verifyWorkers())
	s.monitor = chain.NewMonitor(cfg.Store, s.verifier, s.companyKey)
	s.chains = chain.NewLog(cfg.Store, s.monitor.Publish)
	s.verifies = make(chan struct{}, maxVerifies)
	s.hub = stream.NewHub(s.monitor.Listen, cfg.Log)
	return s
}
