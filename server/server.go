// Package server puts the service together: its configuration, the table of routes with their
// policies, the listeners, and the start and stop of everything that runs. The resources are in
// package api, what their routes share in package httpapi, and the background work in package jobs.
// It may import all of these, service and store; only the commands import it. A newcomer begins
// with the table in routes.go, and with New and Server.Run.
package server

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"attestd/chain"
	"attestd/internal/keysets"
	"attestd/internal/outbound"
	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/server/metrics"
	"attestd/server/stream"
	"attestd/server/webhook"
	"attestd/service"
	"attestd/store"
	"attestd/store/feed"
)

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
	approvals   service.ApprovalWaiters
	refusals    *service.Refusals
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
	agents := &service.Agents{Store: db, Most: func() int { return bounds().Agents }}
	nonces := &service.Nonces{Store: db, Required: cfg.DPoPNonce}
	agentKeys := &service.AgentKeys{Store: db, Nonces: nonces}
	issuers := &service.Issuers{Store: db, Agents: agents}
	decisions := &service.Decisions{Store: db}
	authorizations := &service.Authorizations{Store: db, Decisions: decisions, Log: cfg.Log}
	s.refusals = &service.Refusals{Store: db, Log: cfg.Log}
	tokens := &service.Tokens{Store: db, Keys: agentKeys, Nonces: nonces, Issuers: issuers, Authorizations: authorizations, Sets: s.keySets, CheckURL: fetcher.CheckURL}
	passports := &service.Passports{Store: db, Agents: agents, Keys: agentKeys, Authorizations: authorizations, Verifier: program}
	delegations := &service.Delegations{Store: db, Agents: agents, Tokens: tokens}
	attestations := &service.Attestations{Store: db, Agents: agents, Delegations: delegations, Keys: agentKeys, Passports: passports, Decisions: decisions}
	checkpoints := service.NewCheckpoints(db)
	proofs := &service.Evidence{Store: db, Checkpoints: checkpoints}
	s.federations = service.NewFederations(db, agents, nonces, s.refusals, s.keySets, fetcher.CheckURL)
	s.federations.MostSubjects = func() int { return bounds().Subjects }

	// what all routes share
	bodies := limit.NewPool(cfg.Budgets.Bodies)
	s.api = &httpapi.API{Store: db, Log: cfg.Log, BaseURL: cfg.BaseURL, TrustedProxies: cfg.TrustedProxies, MaxBody: cfg.MaxBody,
		Limiter: limit.NewLimiter(cfg.Limits), Bodies: bodies, Decoding: limit.NewDecoding(bodies), Traces: cfg.Traces,
		Tokens: tokens, AgentKeys: agentKeys, Agents: agents, Nonces: nonces, Refusals: s.refusals}
	if cfg.TLS != nil {
		s.api.IsTLS = true
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

	s.background = s.newBackground(verifier, checkpoints)

	verifications := api.NewVerifications(cfg.Budgets.Verifications, func(ctx context.Context, l store.Log) (chain.Verdict, error) {
		verdict, err := verifier.Verify(ctx, l.Chain, nil)
		if err == nil && verdict.Valid && l.Name == store.Control {
			err = db.Tables.Verify(ctx, l.Chain, &verdict)
		}
		return verdict, err
	})
	search := limit.NewPool(cfg.Budgets.Searches)
	s.status = &status{Config: s.Config, background: s.background, live: &s.live, api: s.api, hub: s.hub, keySets: s.keySets,
		verifications: verifications, searches: search, began: time.Now()}
	people := &service.People{Store: db, Refusals: s.refusals, Link: s.api.InvitationLink}
	approvals := &service.Approvals{Store: db, Attestations: attestations, People: people, Waiters: &s.approvals}
	s.resources = resources{
		agents:       api.Agents{Agents: agents},
		agentKeys:    api.AgentKeys{Keys: agentKeys, Decisions: decisions},
		policies:     api.Policies{Decisions: decisions},
		approvals:    api.Approvals{API: s.api, Approvals: approvals},
		attestations: api.Attestations{Attestations: attestations},
		authzen:      api.AuthZEN{API: s.api, Authorizations: authorizations},
		chains:       api.Chains{Store: db, Verifications: verifications},
		clients:      api.Clients{Tokens: tokens, Hub: s.hub, Most: func() int { return bounds().Clients }},
		companies: api.Companies{API: s.api, Store: db, Agents: agents, Hub: s.hub,
			Registration: func() api.Registration { return s.live.Load().Registration }, MayRecover: cfg.RecoverEndpoint},
		witness:     api.Witness{Store: db, Cosigner: cfg.Cosigner, Stopped: cfg.CosignerStopped},
		credentials: api.Credentials{Store: db, Hub: s.hub, Most: func() int { return bounds().Keys }},
		delegations: api.Delegations{Delegations: delegations},
		forward:     api.Forward{Forwards: &service.Forwards{Store: db, Nonces: nonces, Tokens: tokens, Passports: passports, Authorizations: authorizations}},
		publicKeys:  api.PublicKeys{API: s.api, Store: db, Version: cfg.Version},
		evidence:    api.Evidence{Store: db, Proofs: proofs, AgentKeys: agentKeys},
		federations: api.Federations{Federations: s.federations, Hub: s.hub},
		hooks:       api.Hooks{Attestations: attestations, Passports: passports, Approvals: approvals, Log: cfg.Log},
		issuers:     api.Issuers{API: s.api, Store: db, Issuers: issuers, Agents: agents},
		logs:        api.Logs{Store: db, Checkpoints: checkpoints},
		telemetry:   api.Telemetry{Attestations: attestations},
		passports:   api.Passports{Passports: passports},
		oidc:        api.OIDC{API: s.api, OIDC: s.oidc(cfg)},
		people:      api.People{API: s.api, Store: db, Hub: s.hub, People: people},
		searches:    api.Searches{Store: db, Pool: search, Long: semaphore.NewWeighted(1), Appends: s.deliverer.Pace},
		status:      s.status,
		streams:     api.Streams{Mode: cfg.Stream, Store: db, Tokens: tokens, Hub: s.hub, Monitor: s.monitor, Feed: s.feed},
		tokens:      api.Tokens{Store: db, Tokens: tokens, Federations: s.federations, Hub: s.hub},
		webhooks:    api.Webhooks{Store: db, Log: cfg.Log, Client: s.webhooks, Deliverer: s.deliverer, Most: func() int { return bounds().Webhooks }},
	}
	if cfg.Local != nil {
		cfg.Local.Changed, cfg.Local.State, cfg.Local.Exported = s.companyChanged, s.status.state, s.exporter.Acknowledged
	}
	return s
}

// oidc returns the sign-in by an identity provider, or nil.
func (s *Server) oidc(cfg Config) *service.OIDC {
	if cfg.OIDC == nil {
		return nil
	}
	return service.NewOIDC(*cfg.OIDC, cfg.Store, s.refusals, s.keySets, outbound.Options{AllowPrivate: cfg.FederationAllowPrivate, Roots: cfg.Roots, UserAgent: "attestd/" + cfg.Version})
}

// newBackground returns the jobs of a server, which run in the background.
func (s *Server) newBackground(verifier *chain.Verifier, checkpoints *service.Checkpoints) (b background) {
	db := s.Store
	b.deliverer = jobs.NewDeliverer(db, s.feed, s.webhooks, s.Budgets.Webhooks, s.Log)
	b.changes = jobs.NewChanges(s.hub, b.deliverer)
	b.tables = jobs.NewTableWatch(db, verifier.VerifyInBackground, s.recordStart, s.VerifyEvery, s.Log)
	b.integrity = &jobs.Integrity{Store: db, Verifier: verifier, Tables: b.tables, Every: s.VerifyEvery,
		Program: "attestd/" + s.Version, Invalidate: s.monitor.Invalidate, Log: s.Log}
	b.retention = &jobs.Retention{Store: db, Keep: s.Retention, Series: service.SeriesOfNamed, Log: s.Log}
	b.calls = jobs.NewCallWatch(db, s.Log)
	b.readyCheck = jobs.NewReadyCheck(db.Ready)
	b.clock = jobs.NewClock(db, s.Log)
	b.companies = jobs.NewCompanyCount(db.Companies.Total)
	for _, w := range s.Witnesses {
		b.witnessPublishers = append(b.witnessPublishers, jobs.NewWitnessPublisher(w, db, checkpoints, s.PublishEvery, s.Log))
	}
	if s.Export != nil {
		b.exporter = jobs.NewExporter(s.Export, db, checkpoints, b.deliverer.Pace, s.Log)
	}
	return b
}

// companyChanged returns when streams and webhooks follow what an operator has changed of a
// company.
func (s *Server) companyChanged(company int64) {
	s.changes.Follow(company)
	s.companies.Recount()
}

// verifyWorkers is the number of goroutines that check signatures for GET /v1/verify: one for each
// core that Go may use.
func verifyWorkers() int { return runtime.GOMAXPROCS(0) }
