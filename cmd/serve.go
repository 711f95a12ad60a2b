package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/chain/tlog"
	"attestd/cmd/cli"
	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/server"
	"attestd/server/local"
	"attestd/service"
	"attestd/store"
	"attestd/store/db"
	"attestd/store/sqlite"
)

// serveFlags are the flags of `attestd serve` as typed.
type serveFlags struct {
	// of the program
	version, schema                                                                         string
	listen, db, trustDomain, serviceName, baseURL, rateLimits, stream, maxBody              string
	registration, registrationTokenFile, maxInflight                                        string
	maxConnections, maxConnectionsPerAddress, maxStreams                                    int64
	heads, cosignFor, witnessName                                                           string
	trustedProxies, allowedOrigins, witnesses                                               []string
	noRecoverEndpoint, acceptClock, webhooksAllowPrivate, federationAllowPrivate, dpopNonce bool
	allowNetworkFS                                                                          bool
	bounds                                                                                  server.Bounds
	master                                                                                  masterKeyFlags
	tls                                                                                     tlsFlags
	logs                                                                                    logFlags
	backup                                                                                  serveBackupFlags
	quotas                                                                                  quotaFlags
	ready                                                                                   readyFlags
	metrics                                                                                 metricsFlags
	export                                                                                  exportFlags
	verify                                                                                  verifyFlags
	retention                                                                               retentionFlags
	oidc                                                                                    oidcFlags
}

func serveCommand(version, schema string) *cobra.Command {
	f := serveFlags{version: version, schema: schema}
	cmd := &cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"start", "server", "up", "run-server", "daemon"},
		Short:      "Serve the API and the console",
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.serve(cmd)
		},
	}
	f.add(cmd)
	cli.Often(cmd, "acme-domain", "backup-to", "base-url", "config", "db", "export-to", "heads", "listen", "log-format", "master-key-file",
		"metrics-listen", "rate-limits", "tls-cert", "tls-key")
	return cmd
}

func (f *serveFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	configFlag(cmd)
	databaseFlag(cmd, &f.db)
	headsFlag(cmd, &f.heads)
	f.backup.add(cmd)
	f.master.add(cmd, "", "the master key that seals the keys in the database, existing or new")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8080", "`address` to listen on")
	flags.StringVar(&f.trustDomain, "trust-domain", cred.DefaultTrustDomain,
		"SPIFFE trust `domain`; fixed at the first start of a database")
	flags.StringVar(&f.serviceName, "service-name", "service",
		"`name` of the service on the wire; fixed at the first start of a database")
	flags.StringVar(&f.baseURL, "base-url", "",
		"public `URL`, by which clients and issuers name this service (default: loopback names, and the address that it listens on)")
	flags.StringVar(&f.rateLimits, "rate-limits", "sensitive=10,attest=100,standard=1000,log=6000,company=10",
		"requests per minute in each `tier`, and company as a multiple of them; or off")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil,
		"`CIDR`,… of proxies whose forwarding headers are trusted")
	flags.StringSliceVar(&f.allowedOrigins, "allowed-origins", nil, "`URL`,… of other web origins that may use the API")
	flags.IntVar(&f.bounds.Keys, "max-keys", server.DefaultBounds.Keys, "largest `number` of API keys of a company")
	flags.IntVar(&f.bounds.Clients, "max-clients", server.DefaultBounds.Clients,
		"largest `number` of OAuth clients of a company")
	flags.IntVar(&f.bounds.Agents, "max-agents", server.DefaultBounds.Agents, "largest `number` of agents of a company")
	flags.IntVar(&f.bounds.Webhooks, "max-webhooks", server.DefaultBounds.Webhooks,
		"largest `number` of webhooks of a company")
	flags.IntVar(&f.bounds.Subjects, "max-subjects", server.DefaultBounds.Subjects,
		"largest `number` of subjects that a rule of a federation lets in on a day")
	flags.StringVar(&f.stream, "stream", "open", "who may follow the stream: `open|authenticated|off`")
	flags.StringVar(&f.maxBody, "max-body", "4MiB", "largest request body, a `size` such as 512KiB")
	flags.StringVar(&f.maxInflight, "max-inflight", "256MiB", "largest total `size` of all request bodies in memory")
	flags.Int64Var(&f.maxConnections, "max-connections", 10_000,
		"largest `number` of open connections; lower when the limit of open files is lower")
	flags.Int64Var(&f.maxConnectionsPerAddress, "max-connections-per-address", 256,
		"largest `number` of connections from one address, at most a quarter of all")
	flags.Int64Var(&f.maxStreams, "max-streams", 4000, "largest `number` of stream clients")
	flags.StringVar(&f.registration, "registration", "open", "who may register a company: `open|loopback|token|closed`")
	flags.StringVar(&f.registrationTokenFile, "registration-token-file", "",
		"`file` with the token, for --registration token")
	flags.BoolVar(&f.noRecoverEndpoint, "no-recover-endpoint", false, "disable POST /v1/recover-key")
	flags.BoolVar(&f.acceptClock, "accept-clock", false, "allow writes when the clock is 10 years or more ahead")
	flags.BoolVar(&f.allowNetworkFS, "allow-network-fs", false,
		"start with a database file on a network file system (NFS, SMB, 9p, virtiofs), which damages it sooner or later")
	flags.BoolVar(&f.webhooksAllowPrivate, "webhooks-allow-private", false,
		"allow webhooks to private and loopback addresses, and over http")
	flags.BoolVar(&f.federationAllowPrivate, "federation-allow-private", false,
		"reach other issuers, the identity provider, and key sets of OAuth clients at private and loopback addresses too, and over http")
	flags.BoolVar(&f.dpopNonce, "dpop-nonce", false, "demand a nonce of this service in each DPoP proof: with a token, for one, and of a key that is enrolled")
	flags.StringVar(&f.cosignFor, "cosign-for", "", "cosign the logs listed in this policy `file`")
	flags.StringVar(&f.witnessName, "witness-name", "",
		"`name` of this witness; fixed at its first start (default: host of --base-url, or trust domain, then /witness)")
	flags.StringSliceVar(&f.witnesses, "witness", nil, "`URL=VKEY`,… of witnesses that cosign the logs of this server")
	f.tls.add(cmd)
	f.logs.add(cmd)
	f.quotas.add(cmd)
	f.ready.add(cmd)
	f.metrics.add(cmd)
	f.export.add(cmd)
	f.verify.add(cmd)
	f.retention.add(cmd)
	f.oidc.add(cmd)
	markReloadable(flags)
}

// domain returns the names of the service. A database has its own, so that what is not set is "".
func (f *serveFlags) domain(flags *pflag.FlagSet) (cred.Domain, error) {
	domain := cred.Domain{TrustDomain: f.trustDomain, Service: f.serviceName}
	if err := domain.Check(); err != nil {
		return domain, cli.UsageError{Err: err}
	}
	if !flags.Changed("trust-domain") {
		domain.TrustDomain = ""
	}
	if !flags.Changed("service-name") {
		domain.Service = ""
	}
	return domain, nil
}

// gcPercent lets the heap grow to four times the live data, which is small. That saves a tenth of
// the cost of a request.
const gcPercent = 300

// leastMemory is the lower bound of the soft memory limit, in bytes.
const leastMemory = 256 << 20

// memoryLimit returns the soft memory limit in bytes, above which the collector runs earlier than
// gcPercent says. It is below twice the budget of request bodies, since the database needs memory
// too.
func memoryLimit(bodies int64) int64 { return max(leastMemory, bodies/4*7) }

func (f serveFlags) serve(cmd *cobra.Command) (err error) {
	ctx, stop := context.WithCancelCause(cmd.Context())
	defer stop(nil)
	stderr := cmd.ErrOrStderr()
	domain, err := f.domain(cmd.Flags())
	if err != nil {
		return err
	}
	unknown, err := cli.CheckEnvironment(cmd, os.Environ())
	if err != nil {
		return err
	}
	reload, err := newReloader(cmd.Flags(), f.version)
	if err != nil {
		return err
	}
	cfg, err := f.config(cmd.Flags())
	if err != nil {
		return err
	}
	var cosigned []tlog.PolicyLog
	if f.cosignFor != "" {
		if cosigned, err = readCosignedLogs(f.cosignFor); err != nil {
			return err
		}
	}
	place, err := f.backup.check(f.db)
	if err != nil {
		return err
	}
	reload.catch()
	signal.Ignore(syscall.SIGPIPE) // the service goes on when the reader of its log ends
	began := time.Now()
	if file, ok := stderr.(*os.File); ok {
		appendOnly(file)
		f.logs.journal = leadsToJournal(file, os.Getenv("JOURNAL_STREAM"))
	}
	f.logs.least = new(slog.LevelVar)
	f.logs.least.Set(logLevels[f.logs.level])
	logs := startLog(stderr, f.droppedLines)
	defer logs.stop()
	cfg.Log = slog.New(urgentHandler{f.logs.handler(logs, f.version), logs})
	if most := cfg.Budgets.Connections.Most; most < f.maxConnections {
		cfg.Log.Warn("the limit of open files allows fewer connections than --max-connections", "connections", most)
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
		return cannotListen(f.listen, "listen", err)
	}
	defer listener.Close()
	if err := makeFolder(f.db); err != nil {
		return err
	}
	unsafeDisk, err := checkFileSystem(f.db, f.allowNetworkFS)
	if err != nil {
		return err
	}
	if cfg.TLS, err = f.tls.open(f.version, f.db, portOf(listener.Addr()), cfg.Log); err != nil {
		return err
	}
	if cfg.TLS != nil && cfg.TLS.Redirect != nil {
		defer cfg.TLS.Redirect.Close()
	}
	if err = f.metrics.listen(&cfg); err != nil {
		return err
	}
	if err = startTraces(ctx, &cfg); err != nil {
		return err
	}
	report, finish := cli.Progress()
	cfg.Store, err = store.Open(ctx, f.db, f.schema,
		store.Options{Domain: domain, Master: master, LogHost: hostOf(cfg.BaseURL), Heads: headsPath(f.heads, f.db),
			Progress: report})
	finish()
	if err != nil {
		return err
	}
	defer func() { err = stopped(ctx, cfg.Log, began, errors.Join(err, cfg.Store.Close())) }()
	defer context.AfterFunc(ctx, func() {
		cfg.Log.Info("stopping: waiting for running requests; a second signal ends at once", "reason", context.Cause(ctx).Error())
	})()
	if err = f.openCosigner(ctx, &cfg, cosigned); err != nil {
		return err
	}
	if len(cosigned) > 0 {
		cfg.CosignFor = cosignedName(cosigned)
	}
	f.announce(logs, cfg.Log, listener.Addr(), keysAtRest(cfg.Store), cfg.BaseURL, cfg.Store.IsNew())
	for _, name := range unknown {
		cfg.Log.Warn(cli.UnknownVariable(name))
	}
	for _, exposed := range cfg.Exposed(listener.Addr()) {
		cfg.Log.Warn(exposed)
	}
	if err := service.CheckRelyingParty(ctx, cfg.Store, cfg.BaseURL); err != nil {
		cfg.Log.Warn("nobody can sign in with a passkey: " + err.Error())
	}
	logs.flush()
	if reload.file != "" {
		cfg.Log.Info("settings read", "file", reload.file)
	}
	cfg.Backups = f.backup.schedule(place, cfg.Store, f.db, headsPath(f.heads, f.db), cfg.Log)
	if unsafeDisk != "" {
		cfg.Log.Warn(unsafeDisk)
	}
	for _, notice := range cfg.Store.Notices() {
		cfg.Log.Warn(notice)
	}
	if rollbacks := cfg.Store.Rollback.Behind(); len(rollbacks) > 0 {
		for _, b := range rollbacks {
			cfg.Log.Error("behind the head file: " + rollbackLine(b))
		}
		cfg.Log.Error("read-only: the database is older than its head file, or has another history; restore the right one, or see attestd help accept-rollback")
	}
	cfg.Local = openLocal(cfg.Store, f.db, cfg.Log)
	s := server.New(cfg)
	offering := make(chan struct{})
	go func() { // it waits until the server writes, or ends
		defer close(offering)
		f.offerSetup(ctx, logs, &cfg, listener.Addr())
	}()
	defer func() { stop(nil); <-offering }()
	defer reload.run(ctx, stop, s, &cfg, f.logs.least)()
	return s.Run(ctx, listener)
}

// cannotListen returns an error that says what to do about an address.
func cannotListen(address, flag string, err error) error {
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("cannot listen on %s: %w; a port below 1024 needs the capability CAP_NET_BIND_SERVICE, or choose another address with --%s",
			address, err, flag)
	}
	return fmt.Errorf("cannot listen on %s (choose another address with --%s): %w", address, flag, err)
}

// stopped logs why the server stops and how long it ran, and returns the error with which it does.
// The process prints that.
func stopped(ctx context.Context, log *slog.Logger, began time.Time, err error) error {
	ran := time.Since(began).Round(time.Millisecond)
	switch {
	case err != nil:
		log.Error("stopped", "reason", "failure", "ran", ran.String())
	case ctx.Err() != nil:
		log.Info("stopped", "reason", context.Cause(ctx).Error(), "ran", ran.String())
	default:
		log.Info("stopped", "ran", ran.String())
	}
	return err
}

// keysAtRest says whether the keys in the database are sealed.
func keysAtRest(s *store.Store) string {
	if id := s.MasterKeyID(); id != "" {
		return "sealed with master key " + id
	}
	return "in plaintext (--master-key-file seals them)"
}

// openable returns addr in the form that a program on this machine can open, and what else a
// server that listens there is reached by.
func openable(addr net.Addr) (address, more string) {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port)), " and all other addresses of this machine"
	}
	return addr.String(), ""
}

// announce prints the address of the service, the place of its data, and the first command to run.
func (f serveFlags) announce(logs io.Writer, log *slog.Logger, addr net.Addr, keys, baseURL string, isNew bool) {
	path := db.Name(f.db)
	address, more := openable(addr)
	url := f.tls.scheme() + "://" + address
	if f.tls.on() && baseURL != "" { // for which the certificate is
		url, more = baseURL, ""
	}
	if f.logs.announced() {
		log.Info("listening", "url", url, "db", path, "keys", keys, "address", addr.String())
	} else {
		printable.Fprintf(logs, "attestd %s listens on %s%s (open it in a browser for the console)\ndata is in %s, keys %s\n",
			f.version, url, more, path, keys)
		if isNew && f.registration != "closed" {
			printable.Fprintf(logs, "register a company: curl -s %s/v1/companies -d '{\"companyId\":\"acme\"}'%s\n", url,
				f.registrationHeader())
		}
	}
}

// offerSetup prints a link with which somebody makes the first company and its first person, where
// there is no company. The link is a secret, so it is no part of a log of JSON objects, which is
// made to be collected; where the lines for people are collected too, it ends after an hour.
func (f serveFlags) offerSetup(ctx context.Context, logs io.Writer, cfg *server.Config, addr net.Addr) {
	if f.logs.announced() || !cfg.Store.IsNew() || f.registration == "closed" {
		return
	}
	secret, err := cfg.Store.People.OfferSetup(ctx, time.Now().Add(service.InvitationLifetime))
	if err != nil && ctx.Err() == nil {
		cfg.Log.Warn("no link for the first person can be made", "error", err)
	}
	console := cfg.BaseURL
	if console == "" {
		console = f.tls.scheme() + "://localhost:" + portOf(addr)
	}
	if err == nil && secret != "" {
		printable.Fprintf(logs, "or open within an hour, to name the company and make a passkey: %s\n", service.InvitationPage(console, secret))
	}
}

// openLocal opens the socket for commands on this machine, next to a database file. Without it, the
// service runs all the same.
func openLocal(s *store.Store, database string, log *slog.Logger) *local.Server {
	if db.IsPostgres(database) {
		return nil
	}
	l := &local.Server{Operations: local.Operations{Store: s}, Log: log}
	if err := l.Listen(database); err != nil {
		log.Warn("commands on this machine, such as attestd company, will not work: the server's local socket cannot be opened", "error", err)
	}
	return l
}

// checkFileSystem refuses a network file system under a database file, and returns a warning about
// one that may not hold it; see sqlite.CheckFileSystem.
func checkFileSystem(database string, allowNetwork bool) (warning string, err error) {
	if db.IsPostgres(database) {
		return "", nil
	}
	return sqlite.CheckFileSystem(database, allowNetwork)
}

// makeFolder creates the folder of a database file, for its owner alone, where only that folder is
// missing. The root of a volume of Kubernetes may be written by a group, so that a database there
// needs a folder of its own, and the container has no shell to make one.
func makeFolder(database string) error {
	if db.IsPostgres(database) {
		return nil
	}
	err := os.Mkdir(filepath.Dir(database), 0o700)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil // Open says what is wrong with a path of which more is missing
	}
	return err
}
