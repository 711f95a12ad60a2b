package cmd

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/server"
	"attestd/server/limit"
	"attestd/server/stream"
)

// config returns the server's configuration for these flags, without the store.
func (f serveFlags) config(flags *pflag.FlagSet) (cfg server.Config, err error) {
	for _, what := range []string{"backup", "export"} {
		if err := checkBelongs(flags, what+"-", what+"-to"); err != nil {
			return cfg, err
		}
	}
	cfg = server.Config{Version: f.version, RecoverEndpoint: !f.noRecoverEndpoint, AcceptClock: f.acceptClock,
		MaxConnections: f.maxConnections, Live: server.Live{Bounds: f.bounds}, WebhooksAllowPrivate: f.webhooksAllowPrivate,
		FederationAllowPrivate: f.federationAllowPrivate, DPoPNonce: f.dpopNonce, Roots: cli.TrustedRoots()}
	if err = cli.CheckListen("listen", f.listen); err != nil {
		return cfg, err
	}
	if cfg.BaseURL, err = parseBaseURL(f.baseURL); err != nil {
		return cfg, err
	}
	if err = f.tls.check(&cfg.BaseURL, f.listen, f.db); err != nil {
		return cfg, err
	}
	if cfg.Limits, err = limit.Parse(f.rateLimits); err != nil {
		return cfg, cli.Usagef("--rate-limits: %v", err)
	}
	if cfg.TrustedProxies, err = parseProxies(f.trustedProxies); err != nil {
		return cfg, err
	}
	if cfg.AllowedOrigins, err = parseOrigins(f.allowedOrigins); err != nil {
		return cfg, err
	}
	if min(f.bounds.Keys, f.bounds.Clients, f.bounds.Agents, f.bounds.Webhooks, f.bounds.Subjects) < 1 {
		return cfg, cli.Usagef("--max-keys, --max-clients, --max-agents, --max-webhooks and --max-subjects must be at least 1")
	}
	if cfg.Quotas, err = f.quotas.config(); err != nil {
		return cfg, err
	}
	if cfg.Stream, err = stream.ParseMode(f.stream); err != nil {
		return cfg, cli.Usagef("--stream: %v", err)
	}
	if cfg.Registration, err = parseRegistration(f.registration, f.registrationTokenFile); err != nil {
		return cfg, err
	}
	size, err := humanize.ParseBytes(f.maxBody)
	if err != nil || size < 1024 || size > 1<<30 {
		return cfg, cli.Usagef("--max-body must be a size from 1KiB to 1GiB, got %q", f.maxBody)
	}
	cfg.MaxBody = int64(size)
	if cfg.Budgets, err = f.budgets(cfg.MaxBody); err != nil {
		return cfg, err
	}
	if cfg.Witnesses, err = parseWitnesses(f.witnesses); err != nil {
		return cfg, err
	}
	if err = cmp.Or(f.ready.config(&cfg), f.metrics.config()); err != nil {
		return cfg, err
	}
	if f.witnessName != "" && f.cosignFor == "" {
		return cfg, cli.Usagef("--witness-name requires --cosign-for")
	}
	if cfg.VerifyEvery, err = f.verify.config(); err != nil {
		return cfg, err
	}
	if cfg.Retention, err = f.retention.config(); err != nil {
		return cfg, err
	}
	if cfg.Export, err = f.export.config(); err != nil {
		return cfg, err
	}
	if cfg.OIDC, err = f.oidc.config(f.federationAllowPrivate); err != nil {
		return cfg, err
	}
	cfg.AccessLog, err = f.logs.config()
	return cfg, err
}

// droppedLines returns a log line that reports n dropped ones.
func (f serveFlags) droppedLines(n int) string {
	var line strings.Builder
	slog.New(f.logs.handler(&line, f.version)).Warn(fmt.Sprintf("%d log lines were dropped: standard error could not be written", n))
	return line.String()
}

// budgets returns the server's resource limits for these flags.
func (f serveFlags) budgets(maxBody int64) (b limit.Budgets, err error) {
	for name, n := range map[string]int64{
		"max-connections": f.maxConnections, "max-connections-per-address": f.maxConnectionsPerAddress,
		"max-streams": f.maxStreams,
	} {
		if n < 1 || n > 1_000_000 {
			return b, cli.Usagef("--%s must be a number from 1 to 1000000, got %d", name, n)
		}
	}
	inflight, err := humanize.ParseBytes(f.maxInflight)
	if err != nil || inflight < 2*uint64(maxBody) || inflight > 1<<40 {
		return b, cli.Usagef("--max-inflight must be a size from twice --max-body to 1TiB, got %q", f.maxInflight)
	}
	return limit.Budgets{
		Connections: limit.Connections(limit.FitFiles(f.maxConnections), f.maxConnectionsPerAddress),
		Streams:     limit.Streams(f.maxStreams),
		Bodies:      limit.Bodies(int64(inflight), maxBody),

		Webhooks: limit.Webhooks(4096),

		Verifications: limit.Verifications(2048),

		Searches: limit.Searches(512),
	}, nil
}
