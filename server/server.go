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
	monitor           *chain.Monitor
	limiter           *limit.Limiter
	bodies            *limit.Pool // of bytes
	decoding          *limit.Decoding
	hub               *stream.Hub
	checkpoints       *service.Checkpoints
	witnessPublishers []*jobs.WitnessPublisher // one for each of Witnesses
	feed              *feed.Feed
	webhooks          *webhook.Client
	deliverer         *jobs.Deliverer
	exporter          *jobs.Exporter // nil for none
	keySets           *keysets.Sets
	changes           *jobs.Changes
	tables            *jobs.TableWatch
	readyCheck        *jobs.ReadyCheck
	metrics           *metrics.Metrics   // nil without MetricsListener
	companies         *jobs.CompanyCount // runs for metrics alone
	listener          *limit.Listener    // of Run
	clock             *jobs.Clock
	stopping          atomic.Bool // Run was asked to stop
	began             time.Time
	integrity         *jobs.Integrity
	retention         *jobs.Retention
	calls             *jobs.CallWatch

	agents       *service.Agents
	agentKeys    *service.AgentKeys
	federations  *service.Federations
	tokens       *service.Tokens
	nonces       *service.Nonces
	issuers      *service.Issuers
	delegations  *service.Delegations
	attestations *service.Attestations
	proofs       *service.Evidence
	passports    *service.Passports

	live      atomic.Pointer[live]
	recording sync.Mutex // of recordStart

	// the address of the listener; set before anything is served
	listening netip.AddrPort

	verifications *verifications // of GET /v1/verify
	searches      *limit.Pool    // of GET /v1/records and its histogram

	sampled sampler // of the lines of requests

	// of 1: the turn of a search that reads each payload, or all records
	longSearch *semaphore.Weighted
}

// New wires a server; nothing runs and nothing is listened on before Run.
func New(cfg Config) *Server {
	cfg.BaseURL = strings.TrimRight(cfg.BaseURL, "/")
	s := &Server{Config: cfg, began: time.Now(), limiter: limit.NewLimiter(cfg.Limits), bodies: limit.NewPool(cfg.Budgets.Bodies)}
	s.Config.Live = Live{} // s.live has them
	s.live.Store(newLive(cfg.Live, cfg.BaseURL))
	s.decoding = limit.NewDecoding(s.bodies)
	verifier := chain.NewVerifier(cfg.Store, verifyWorkers())
	s.verifications = newVerifications(cfg.Budgets.Verifications, func(ctx context.Context, l store.Log) (chain.Verdict, error) {
		verdict, err := verifier.Verify(ctx, l.Chain, nil)
		if err == nil && verdict.Valid && l.Name == store.Control {
			err = cfg.Store.Tables.Verify(ctx, l.Chain, &verdict)
		}
		return verdict, err
	})
	s.tables = jobs.NewTableWatch(cfg.Store, verifier.VerifyInBackground, s.recordStart, cfg.VerifyEvery, cfg.Log)
	s.agents = &service.Agents{Store: cfg.Store, Most: func() int { return s.live.Load().Bounds.Agents }}
	s.nonces = &service.Nonces{Store: cfg.Store, Required: cfg.DPoPNonce}
	s.agentKeys = &service.AgentKeys{Store: cfg.Store, Nonces: s.nonces}
	s.issuers = &service.Issuers{Store: cfg.Store, Agents: s.agents}
	fetcher := keysets.NewClient(keysets.Options{AllowPrivate: cfg.FederationAllowPrivate, Roots: cfg.Roots, UserAgent: "attestd/" + cfg.Version})
	s.keySets = keysets.New(fetcher)
	s.tokens = &service.Tokens{Store: cfg.Store, Keys: s.agentKeys, Nonces: s.nonces, Issuers: s.issuers, Sets: s.keySets, CheckURL: fetcher.CheckURL}
	s.passports = &service.Passports{Store: cfg.Store, Agents: s.agents, Keys: s.agentKeys, Verifier: "attestd/" + cfg.Version}
	s.delegations = &service.Delegations{Store: cfg.Store, Agents: s.agents, Tokens: s.tokens}
	s.attestations = &service.Attestations{Store: cfg.Store, Agents: s.agents, Delegations: s.delegations, Keys: s.agentKeys}
	s.searches, s.longSearch = limit.NewPool(cfg.Budgets.Searches), semaphore.NewWeighted(1)
	s.checkpoints = service.NewCheckpoints(cfg.Store)
	s.clock = jobs.NewClock(cfg.Store, cfg.Log)
	s.readyCheck = jobs.NewReadyCheck(cfg.Store.Ready)
	s.companies = jobs.NewCompanyCount(cfg.Store.Companies.Total)
	if cfg.MetricsListener != nil {
		s.metrics = metrics.New(cfg.Version)
	}
	s.proofs = &service.Evidence{Store: cfg.Store, Checkpoints: s.checkpoints}
	for _, w := range cfg.Witnesses {
		s.witnessPublishers = append(s.witnessPublishers, jobs.NewWitnessPublisher(w, cfg.Store, s.checkpoints, cfg.PublishEvery, cfg.Log))
	}
	s.feed = feed.New(cfg.Store)
	s.webhooks = webhook.NewClient(webhook.Options{AllowPrivate: cfg.WebhooksAllowPrivate, Roots: cfg.Roots, UserAgent: "attestd/" + cfg.Version})
	s.federations = service.NewFederations(cfg.Store, s.agents, s.nonces, s.keySets, fetcher.CheckURL)
	s.federations.MostSubjects = func() int { return s.live.Load().Bounds.Subjects }
	s.deliverer = jobs.NewDeliverer(cfg.Store, s.feed, s.webhooks, cfg.Budgets.Webhooks, cfg.Log)
	if cfg.Export != nil {
		s.exporter = jobs.NewExporter(cfg.Export, cfg.Store, s.checkpoints, s.deliverer.Pace, cfg.Log)
	}
	if cfg.Local != nil {
		cfg.Local.Changed, cfg.Local.State, cfg.Local.Exported = s.companyChanged, s.state, s.exporter.Acknowledged
	}
	s.monitor = chain.NewMonitor(cfg.Store, verifier, cfg.Store.MultiWriter())
	s.integrity = &jobs.Integrity{Store: cfg.Store, Verifier: verifier, Tables: s.tables, Every: cfg.VerifyEvery,
		Program: "attestd/" + cfg.Version, Invalidate: s.monitor.Invalidate, Log: cfg.Log}
	if s.Retention == (store.Retention{}) {
		s.Retention = store.DefaultRetention
	}
	s.retention = &jobs.Retention{Store: cfg.Store, Keep: s.Retention, Series: service.SeriesOfNamed, Log: cfg.Log}
	s.calls = jobs.NewCallWatch(cfg.Store, cfg.Log)
	s.hub = stream.NewHub(cfg.Budgets.Streams, s.monitor.Listen, cfg.Log)
	s.changes = jobs.NewChanges(s.hub, s.deliverer)
	return s
}

// companyChanged returns when streams and webhooks follow what an operator has changed of a
// company.
func (s *Server) companyChanged(company int64) {
	s.changes.Follow(company)
	s.companies.Again()
}
