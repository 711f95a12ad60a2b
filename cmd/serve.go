package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"attestd/chain/tlog"
	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/server"
	"attestd/store"
)

// serveFlags are the flags of `attestd serve` as typed.
type serveFlags struct {
	// of the program
	version, schema                                                                       string
	listen, db, trustDomain, serviceName, baseURL, rateLimits, stream, maxBody, logFormat string
	registration, registrationTokenFile, maxInflight                                      string
	maxConnections, maxConnectionsPerAddress, maxStreams                                  int64
	heads, cosignFor, witnessName                                                         string
	trustedProxies, allowedOrigins, witnesses                                             []string
	noRecoverEndpoint, acceptClock, webhooksAllowPrivate                                  bool
	bounds                                                                                server.Bounds
	master                                                                                masterKeyFlags
}

func serveCommand(version, schema string) *cobra.Command {
	f := serveFlags{version: version, schema: schema}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API and the console from one database file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			domain := cred.Domain{TrustDomain: f.trustDomain, Service: f.serviceName}
			if err := domain.Check(); err != nil {
				return usageError{err}
			}
			// What was not asked for is what the file says; only a new file takes the defaults.
			if !cmd.Flags().Changed("trust-domain") {
				domain.TrustDomain = ""
			}
			if !cmd.Flags().Changed("service-name") {
				domain.Service = ""
			}
			return f.serve(cmd.Context(), domain, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	databaseFlag(cmd, &f.db)
	headsFlag(cmd, &f.heads)
	f.master.add(cmd, "", "the master key that the keys in the database are sealed with, and a new one is to be")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	flags.StringVar(&f.trustDomain, "trust-domain", "attestd.local", "SPIFFE trust `domain`; fixed at the first start of a database")
	flags.StringVar(&f.serviceName, "service-name", "service", "`name` of the service on the wire; fixed at the first start of a database")
	flags.StringVar(&f.baseURL, "base-url", "", "public `URL`; inferred from each request when not set")
	flags.StringVar(&f.rateLimits, "rate-limits", "sensitive=10,attest=100,standard=1000,log=6000,company=10", "requests a minute in each `tier`, and how many times that for a company; or off")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil, "`CIDR`,… of proxies whose forwarding headers count")
	flags.StringSliceVar(&f.allowedOrigins, "allowed-origins", nil, "`URL`,… of web pages elsewhere that may use the API")
	flags.IntVar(&f.bounds.Keys, "max-keys", server.DefaultBounds.Keys, "`number` of API keys that a company may have")
	flags.IntVar(&f.bounds.Clients, "max-clients", server.DefaultBounds.Clients, "`number` of OAuth clients that a company may have")
	flags.IntVar(&f.bounds.Agents, "max-agents", server.DefaultBounds.Agents, "`number` of agents that a company may have")
	flags.IntVar(&f.bounds.Webhooks, "max-webhooks", server.DefaultBounds.Webhooks, "`number` of webhooks that a company may have")
	flags.StringVar(&f.stream, "stream", "open", "who may follow the stream: `open|authenticated|off`")
	flags.StringVar(&f.maxBody, "max-body", "4MiB", "largest request body, a `size` such as 512KiB")
	flags.StringVar(&f.maxInflight, "max-inflight", "256MiB", "largest `size` of all request bodies together")
	flags.Int64Var(&f.maxConnections, "max-connections", 10_000, "largest `number` of open connections; less when fewer files may be open")
	flags.Int64Var(&f.maxConnectionsPerAddress, "max-connections-per-address", 256, "largest `number` of them from one address, and never more than a quarter")
	flags.Int64Var(&f.maxStreams, "max-streams", 4000, "largest `number` of clients of the stream")
	flags.StringVar(&f.registration, "registration", "open", "who may register a company: `open|loopback|token|closed`")
	flags.StringVar(&f.registrationTokenFile, "registration-token-file", "", "`file` with the token, for --registration token")
	flags.BoolVar(&f.noRecoverEndpoint, "no-recover-endpoint", false, "switch POST /v1/recover-key off")
	flags.BoolVar(&f.acceptClock, "accept-clock", false, "write although the clock is ten years or more ahead of the database")
	flags.BoolVar(&f.webhooksAllowPrivate, "webhooks-allow-private", false, "let webhooks be of private networks and of this machine, and by http")
	flags.StringVar(&f.cosignFor, "cosign-for", "", "be a witness of the logs that the policy in `file` names")
	flags.StringVar(&f.witnessName, "witness-name", "", "`name` of this witness; fixed at its first start (default: host of --base-url, or trust domain, with /witness)")
	flags.StringSliceVar(&f.witnesses, "witness", nil, "`URL=VKEY`,… of witnesses that are asked to cosign our logs")
	flags.StringVar(&f.logFormat, "log-format", "text", "`text|json`")
	return cmd
}

// gcPercent lets the heap grow to four times what lives in it, which is little: a tenth of a
// request's cost is saved.
const gcPercent = 300

// leastMemory is below any memory limit that a server has.
const leastMemory = 256 << 20

// memoryLimit is from where on memory is collected before the heap has grown by gcPercent: below
// twice what request bodies may take, decoding included, for the database has memory of its own.
func memoryLimit(bodies int64) int64 { return max(leastMemory, bodies/4*7) }

func (f serveFlags) serve(ctx context.Context, domain cred.Domain, stderr io.Writer) (err error) {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	var cosigned []tlog.PolicyLog
	if f.cosignFor != "" {
		if cosigned, err = readCosignedLogs(f.cosignFor); err != nil {
			return err
		}
	}
	signal.Ignore(syscall.SIGPIPE) // the service outlives whoever reads its log
	logs := startLog(stderr, f.droppedLines)
	defer logs.stop()
	cfg.Log = slog.New(urgentHandler{f.logTo(logs), logs})
	if most := cfg.Budgets.Connections.Most; most < f.maxConnections {
		cfg.Log.Warn("fewer connections than --max-connections, for this process may not open more files", "connections", most)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(cfg.Budgets.Bodies.Most))
	}
	master, err := f.master.read(ctx)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s (--listen chooses another address): %w", f.listen, err)
	}
	defer listener.Close()
	report, finish := progress()
	cfg.Store, err = store.Open(ctx, f.db, f.schema, store.Options{Domain: domain, Master: master, LogHost: hostOf(cfg.BaseURL), Heads: headsPath(f.heads, f.db), Progress: report})
	finish()
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, cfg.Store.Close()); err == nil {
			cfg.Log.Info("stopped")
		}
	}()
	defer context.AfterFunc(ctx, func() {
		cfg.Log.Info("stopping: requests that run are ended first; a second signal ends at once")
	})()
	if err = f.openCosigner(ctx, &cfg, cosigned); err != nil {
		return err
	}
	if len(cosigned) > 0 {
		cfg.CosignFor = cosignedName(cosigned)
	}
	f.announce(logs, cfg.Log, listener.Addr(), keysAtRest(cfg.Store), cfg.Store.IsNew())
	logs.hurry()
	for _, notice := range cfg.Store.Notices() {
		cfg.Log.Warn(notice)
	}
	if behind := cfg.Store.Behind(); len(behind) > 0 {
		for _, b := range behind {
			cfg.Log.Error("behind the head file: " + behindLine(b))
		}
		cfg.Log.Error("nothing is written, for the database is older than it was, or has another history; put the right one in its place, or see attestd help accept-rollback")
	}
	return server.New(cfg).Run(ctx, listener)
}

// keysAtRest says how the keys stand in the file.
func keysAtRest(s *store.Store) string {
	if id := s.MasterKeyID(); id != "" {
		return "sealed with master key " + id
	}
	return "in clear (--master-key-file seals them)"
}

// announce says in three lines where the service is, where its data is, and what to do first.
func (f serveFlags) announce(logs io.Writer, log *slog.Logger, addr net.Addr, keys string, isNew bool) {
	path := store.Name(f.db)
	url := "http://" + addr.String()
	if f.logFormat == "json" {
		log.Info("listening", "url", url, "db", path, "keys", keys)
	} else {
		printable.Fprintf(logs, "attestd %s listens on %s (open it in a browser for the console)\ndata is in %s, keys %s\n", f.version, url, path, keys)
		if isNew && f.registration != "closed" {
			printable.Fprintf(logs, "register a company: curl -s %s/v1/companies -d '{\"companyId\":\"acme\"}'%s\n", url, f.registrationHeader())
		}
	}
	if tcp, ok := addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && f.stream == "open" {
		log.Warn("the stream shows every company's records to anyone who reaches this address; see --stream")
	}
}
