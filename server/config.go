package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"attestd/chain/witness"
	"attestd/server/api"
	"attestd/server/httpapi"
	"attestd/server/https"
	"attestd/server/jobs"
	"attestd/server/limit"
	"attestd/server/local"
	"attestd/server/stream"
	"attestd/server/trace"
	"attestd/service"
	"attestd/store"
	"attestd/store/admin/backups"
	"attestd/store/ledger"
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
	// how long the server still serves after it was asked to stop, while it is not ready
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

	DPoPNonce bool // whether DPoP proofs need a nonce of the server

	// whether webhooks may be of private networks and this machine, and by http
	WebhooksAllowPrivate bool
	// the same of the key sets of other issuers, and of the identity provider
	FederationAllowPrivate bool
	OIDC                   *service.OIDCConfig // identity provider of people; nil for none

	TLS *TLS // nil serves plain HTTP

	// CAs of webhooks' endpoints and of other issuers; nil for those of the system
	Roots *x509.CertPool

	Log *slog.Logger
}

// Bounds are how much of each kind one company may have.
type Bounds struct {
	Keys, Clients, Agents, Webhooks int
	Subjects                        int // that a rule of a federation admits on a day
}

// String is in the form of the flags.
func (b Bounds) String() string {
	return fmt.Sprintf("keys=%d,clients=%d,agents=%d,webhooks=%d,subjects=%d", b.Keys, b.Clients, b.Agents, b.Webhooks, b.Subjects)
}

// DefaultBounds are far above what companies need and far below what would harm others.
var DefaultBounds = Bounds{Keys: 1000, Clients: 1000, Agents: 1_000_000, Webhooks: 16, Subjects: 10_000}

// Live are the settings that Reload can change while the server runs.
type Live struct {
	Limits         limit.Limits // requests a minute
	Registration   api.Registration
	AllowedOrigins []string      // URLs of pages elsewhere that may use the API from a browser
	Bounds         Bounds        // of what a company may have
	Quotas         ledger.Quotas // of what companies may have
	// free bytes on the disk of the database below which the server is not ready; 0 for no bound
	DiskFloor int64
	AccessLog httpapi.AccessLog
}

// TLS says how a server speaks TLS itself.
type TLS struct {
	Certificates Certificates
	// whose client certificates say who asks; nil asks for none
	ClientCAs *https.ClientCAs
	// on which plain HTTP is answered with redirects to https; nil answers none
	Redirect net.Listener
	// port of the URLs to which it redirects, "" for the scheme's own
	RedirectPort string
}

// Certificates are those that the server shows: of files, or of a CA.
type Certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Protocols() []string           // of ALPN, in addition to HTTP's
	Run(ctx context.Context) error // until ctx is done
	Status() https.Status          // may be called at any time
}

// leastMemory is what a server needs in addition to the bodies of requests, in bytes.
const leastMemory = 256 << 20

// Needs returns the limits of this process and what a configuration needs of them.
func (c Config) Needs() local.Limits {
	memory, _ := limit.Memory()
	return local.Limits{OpenFiles: limit.OpenFiles(), Connections: c.Budgets.Connections.Most, WantConnections: c.MaxConnections,
		// bodies use up to twice their budget while they are decoded
		Memory: memory, NeedMemory: max(leastMemory, 2*c.Budgets.Bodies.Most)}
}

// Exposed describes what unauthenticated clients can do at the addresses on which a server with
// this configuration listens, and what is open to no client, one sentence each. On loopback there
// are no sentences.
func (c Config) Exposed(addr net.Addr) (findings []string) {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return nil
	}
	if c.Stream == stream.Open {
		findings = append(findings, "the stream shows the records of all companies to anyone who can reach this address; see --stream")
	}
	if c.Registration.Mode == api.RegistrationOpen && c.Quotas.AllBytes == 0 {
		findings = append(findings, "anyone who can reach this address can register a company and fill the disk; see --max-total-bytes and --registration")
	}
	if c.BaseURL == "" {
		findings = append(findings, "the name by which others reach this address is unknown here, so sign-in with keys, DPoP proofs and tokens for others are refused under it; see --base-url")
	}
	if c.Limits == (limit.Limits{}) {
		findings = append(findings, "anyone who can reach this address can send as many requests as the server answers; see --rate-limits")
	}
	return findings
}
