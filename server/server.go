// Package server is the HTTP API: routes, identity, limits, the stream, and the one place where an
// error becomes a response.
package server

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/chain"
	"attestd/chain/witness"
	"attestd/internal/keysets"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/server/local"
	"attestd/server/metrics"
	"attestd/server/stream"
	"attestd/server/trace"
	"attestd/server/webhook"
	"attestd/service"
	"attestd/store"
	"attestd/store/admin/backups"
	"attestd/store/feed"
)

// Config is all that a Server needs to know.
type Config struct {
	Live

	Store   *store.Store
	Version string // shown in receipts and discovery
	// public address without a trailing slash; "" infers it from each request
	BaseURL        string
	Budgets        limit.Budgets  // what callers may hold at a time
	MaxConnections int64          // as set; Budgets has fewer where fewer files may be open
	TrustedProxies []netip.Prefix // peers whose forwarding headers count
	Stream         stream.Mode
	MaxBody        int64 // bytes
	// whether POST /v1/recover-key exists for callers on this machine
	RecoverEndpoint bool
	// how long the server goes on after it was asked to stop, while it is not ready
	DrainDelay time.Duration
	// where the metrics are served, or nil for none; Run closes it
	MetricsListener net.Listener
	Traces          *trace.Tracer     // of requests and transactions; nil for none
	AcceptClock     bool              // see store.RunOptions
	Cosigner        *witness.Cosigner // cosigns the logs of others; nil cosigns none
	// why Cosigner is nil although configured, or nil
	CosignerStopped error
	// names of the logs that Cosigner cosigns, for the control log
	CosignFor string
	Witnesses []*witness.Client // witnesses that cosign our logs
	// serves commands on this machine; nil where they open the database themselves
	Local *local.Server
	// minimum time between requests to a witness about the same log; 0 is 2 seconds
	PublishEvery time.Duration

	Backups *backups.Schedule // nil makes none
	Export  *jobs.Export      // where the logs are sent too; nil for nowhere
	// between the beginnings of two passes of the background verification; 0 for none
	VerifyEvery time.Duration
	// how long rows stay after their end; the zero value is store.DefaultRetention
	Retention store.Retention

	DPoPNonce bool // whether DPoP proofs need a nonce of ours

	// whether webhooks may be of private networks and this machine, and by http
	WebhooksAllowPrivate bool
	// the same of the key sets of other issuers
	FederationAllowPrivate bool

	TLS *TLS // nil serves plain HTTP

	// CAs of webhooks' endpoints and of other issuers; nil for those of the system
	Roots *x509.CertPool

	Log *slog.Logger
}

// Bounds are how much of each kind one company may have.
type Bounds struct {
	Keys, Clients, Agents, Webhooks int
	Subjects                        int // that a rule of a federation lets in on a day
}

// String is in the form of the flags.
func (b Bounds) String() string {
	return fmt.Sprintf("keys=%d,clients=%d,agents=%d,webhooks=%d,subjects=%d", b.Keys, b.Clients, b.Agents, b.Webhooks, b.Subjects)
}

// DefaultBounds are far above what companies need and far below what would harm others.
var DefaultBounds = Bounds{Keys: 1000, Clients: 1000, Agents: 1_000_000, Webhooks: 16, Subjects: 10_000}

// Server answers the API. Run starts and stops everything it needs.
type Server struct {
	Config
	background
	api       *httpapi.API
	resources resources
	status    *status

	monitor     *chain.Monitor
	hub         *stream.Hub
	feed        *feed.Feed
	webhooks    *webhook.Client
	keySets     *keysets.Sets
	federations *service.Federations
	metrics     *metrics.Metrics // nil without MetricsListener

	live      atomic.Pointer[Live]
	recording sync.Mutex // of recordStart
}

// New wires a server; nothing runs and nothing is listened on before Run.
func New(cfg Config) *Server {
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	if cfg.Retention == (store.Retention{}) {
		cfg.Retention = store.DefaultRetention
	}
	s := &Server{Config: cfg}
	s.live.Store(&cfg.Live)
	s.Config.Live = Live{} // s.live has them
	db := cfg.Store
	bounds := func() Bounds { return s.live.Load().Bounds }
	program := "attestd/" + cfg.Version

	// what the routes do, whatever their form
	fetcher := keysets.NewClient(keysets.Options{AllowPrivate: cfg.FederationAllowPrivate, Roots: cfg.Roots, UserAgent: program})
	s.keySets = keysets.New(fetcher)
	theAgents := &service.Agents{Store: db, Most: func() int { return bounds().Agents }}
	nonces := &service.Nonces{Store: db, Required: cfg.DPoPNonce}
	theAgentKeys := &service.AgentKeys{Store: db, Nonces: nonces}
	theIssuers := &service.Issuers{Store: db, Agents: theAgents}
	theTokens := &service.Tokens{Store: db, Keys: theAgentKeys, Nonces: nonces, Issuers: theIssuers, Sets: s.keySets, CheckURL: fetcher.CheckURL}
	thePassports := &service.Passports{Store: db, Agents: theAgents, Keys: theAgentKeys, Verifier: program}
	theDelegations := &service.Delegations{Store: db, Agents: theAgents, Tokens: theTokens}
	theAttestations := &service.Attestations{Store: db, Agents: theAgents, Delegations: theDelegations, Keys: theAgentKeys}
	checkpoints := service.NewCheckpoints(db)
	proofs := &service.Evidence{Store: db, Checkpoints: checkpoints}
	s.federations = service.NewFederations(db, theAgents, nonces, s.keySets, fetcher.CheckURL)
	s.federations.MostSubjects = func() int { return bounds().Subjects }

	// what all routes share
	bodies := limit.NewPool(cfg.Budgets.Bodies)
	s.api = &httpapi.API{Store: db, Log: cfg.Log, BaseURL: cfg.BaseURL, TrustedProxies: cfg.TrustedProxies, MaxBody: cfg.MaxBody,
		Limiter: limit.NewLimiter(cfg.Limits), Bodies: bodies, Decoding: limit.NewDecoding(bodies), Traces: cfg.Traces,
		Tokens: theTokens, AgentKeys: theAgentKeys, Agents: theAgents, Nonces: nonces}
	if cfg.TLS != nil {
		s.api.ClientCAs = cfg.TLS.ClientCAs
	}
	if cfg.MetricsListener != nil {
		s.metrics = metrics.New(cfg.Version)
		s.api.Metrics = s.metrics
	}
	s.api.Set(cfg.AllowedOrigins, cfg.AccessLog)

	verifier := chain.NewVerifier(db, verifyWorkers())
	s.monitor = chain.NewMonitor(db, verifier, db.MultiWriter())
	s.hub = stream.NewHub(cfg.Budgets.Streams, s.monitor.Listen, cfg.Log)
	s.feed = feed.New(db)
	s.webhooks = webhook.NewClient(webhook.Options{AllowPrivate: cfg.WebhooksAllowPrivate, Roots: cfg.Roots, UserAgent: program})

	// what runs beside requests
	s.deliverer = jobs.NewDeliverer(db, s.feed, s.webhooks, cfg.Budgets.Webhooks, cfg.Log)
	s.changes = jobs.NewChanges(s.hub, s.deliverer)
	s.tables = jobs.NewTableWatch(db, verifier.VerifyInBackground, s.recordStart, cfg.VerifyEvery, cfg.Log)
	s.integrity = &jobs.Integrity{Store: db, Verifier: verifier, Tables: s.tables, Every: cfg.VerifyEvery,
		Program: program, Invalidate: s.monitor.Invalidate, Log: cfg.Log}
	s.retention = &jobs.Retention{Store: db, Keep: cfg.Retention, Series: service.SeriesOfNamed, Log: cfg.Log}
	s.calls = jobs.NewCallWatch(db, cfg.Log)
	s.readyCheck = jobs.NewReadyCheck(db.Ready)
	s.clock = jobs.NewClock(db, cfg.Log)
	s.companies = jobs.NewCompanyCount(db.Companies.Total)
	for _, w := range cfg.Witnesses {
		s.witnessPublishers = append(s.witnessPublishers, jobs.NewWitnessPublisher(w, db, checkpoints, cfg.PublishEvery, cfg.Log))
	}
	if cfg.Export != nil {
		s.exporter = jobs.NewExporter(cfg.Export, db, checkpoints, s.deliverer.Pace, cfg.Log)
	}

	verifications := newVerifications(cfg.Budgets.Verifications, func(ctx context.Context, l store.Log) (chain.Verdict, error) {
		verdict, err := verifier.Verify(ctx, l.Chain, nil)
		if err == nil && verdict.Valid && l.Name == store.Control {
			err = db.Tables.Verify(ctx, l.Chain, &verdict)
		}
		return verdict, err
	})
	search := limit.NewPool(cfg.Budgets.Searches)
	s.status = &status{Config: s.Config, background: s.background, live: &s.live, api: s.api, hub: s.hub, keySets: s.keySets,
		verifications: verifications, searches: search, began: time.Now()}
	s.resources = resources{
		agents:       agents{theAgents},
		agentKeys:    agentKeys{theAgentKeys},
		attestations: attestations{theAttestations},
		chains:       chains{db, verifications},
		clients:      clients{theTokens, s.hub, bounds},
		companies: companies{api: s.api, Store: db, agents: theAgents, hub: s.hub,
			registration: func() Registration { return s.live.Load().Registration }, RecoverEndpoint: cfg.RecoverEndpoint},
		cosignatures: cosignatures{db, cfg.Cosigner, cfg.CosignerStopped},
		credentials:  credentials{db, s.hub, bounds},
		delegations:  delegations{theDelegations},
		discoveries:  discoveries{s.api, db, cfg.Version},
		evidences:    evidences{db, proofs, theAgentKeys},
		federations:  federations{s.federations, s.hub},
		hooks:        hooks{theAttestations, thePassports, cfg.Log},
		issuers:      issuers{s.api, db, theIssuers, theAgents},
		logs:         logs{db, checkpoints},
		otlp:         otlp{theAttestations},
		passports:    passports{thePassports},
		searches:     searches{db, search, semaphore.NewWeighted(1), s.deliverer.Pace},
		status:       s.status,
		streams:      streams{cfg.Stream, db, theTokens, s.hub, s.monitor, s.feed},
		tokens:       tokens{db, theTokens, s.federations, s.hub},
		webhooks:     webhooks{db, cfg.Log, s.webhooks, s.deliverer, bounds},
	}
	if cfg.Local != nil {
		cfg.Local.Changed, cfg.Local.State, cfg.Local.Exported = s.companyChanged, s.status.state, s.exporter.Acknowledged
	}
	return s
}

// companyChanged returns when streams and webhooks follow what an operator has changed of a
// company.
func (s *Server) companyChanged(company int64) {
	s.changes.Follow(company)
	s.companies.Again()
}
