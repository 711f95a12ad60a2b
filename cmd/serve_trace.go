package cmd

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"attestd/cmd/cli"
	"attestd/server"
	"attestd/server/trace"
)

// startTraces starts to send spans if the standard variables of OpenTelemetry ask for that. It is
// called when the log exists.
func startTraces(ctx context.Context, cfg *server.Config) error {
	c, enabled, err := traceConfig()
	if err != nil || !enabled {
		return err
	}
	c.Version, c.Log = cfg.Version, cfg.Log
	cfg.Traces, err = trace.Start(ctx, c)
	if err == nil {
		cfg.Log.Info("sending spans to a collector")
	}
	return err
}

// traceConfig reads the standard variables. What they ask for and is not there is a usage error, so
// that an operator does not wait for spans in vain.
func traceConfig() (c trace.Config, enabled bool, err error) {
	disabled := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
	exporter := os.Getenv("OTEL_TRACES_EXPORTER")
	own, common := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	if disabled || exporter == "none" || exporter == "" && own == "" && common == "" {
		return c, false, nil
	}
	if exporter != "" && exporter != "otlp" {
		return c, false, cli.Usagef("OTEL_TRACES_EXPORTER must be otlp or none, got %q", exporter)
	}
	c.URL = own
	if own == "" {
		c.URL = strings.TrimRight(cmp.Or(common, "http://localhost:4318"), "/") + "/v1/traces"
	}
	if at, err := url.Parse(c.URL); err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return c, false, cli.Usagef("OTEL_EXPORTER_OTLP_ENDPOINT must be an http or https URL without a password")
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	if protocol != "http/protobuf" {
		return c, false, cli.Usagef("OTEL_EXPORTER_OTLP_PROTOCOL must be http/protobuf, got %q", protocol)
	}
	headers := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	if c.Headers, err = traceHeaders(headers); err != nil {
		return c, false, err
	}
	timeout := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"), os.Getenv("OTEL_EXPORTER_OTLP_TIMEOUT"), "10000")
	milliseconds, err := strconv.Atoi(timeout)
	if err != nil || milliseconds < 1 || milliseconds > 600_000 {
		return c, false, cli.Usagef("OTEL_EXPORTER_OTLP_TIMEOUT must be milliseconds from 1 to 600000, got %q", timeout)
	}
	c.Timeout = time.Duration(milliseconds) * time.Millisecond
	switch packed := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION"), os.Getenv("OTEL_EXPORTER_OTLP_COMPRESSION")); packed {
	case "gzip":
		c.Gzip = true
	case "", "none":
	default:
		return c, false, cli.Usagef("OTEL_EXPORTER_OTLP_COMPRESSION must be gzip or none, got %q", packed)
	}
	c.Roots = cli.TrustedRoots()
	if file := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE"), os.Getenv("OTEL_EXPORTER_OTLP_CERTIFICATE")); file != "" {
		text, err := cli.ReadRights(file, cli.MaxCAFile)
		if err != nil {
			return c, false, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.Roots = x509.NewCertPool()
		if !c.Roots.AppendCertsFromPEM(text) {
			return c, false, cli.Usagef("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate is in %s", file)
		}
	}
	c.Service = cmp.Or(os.Getenv("OTEL_SERVICE_NAME"), "attestd")
	return c, true, nil
}

// traceHeaders parses name=value,… with values that are percent-encoded. Its errors have no value,
// which may be secret.
func traceHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || err != nil || name == "" || strings.ContainsAny(name, " \r\n:") || strings.ContainsAny(decoded, "\r\n") {
			return nil, cli.Usagef("OTEL_EXPORTER_OTLP_HEADERS must look like name=value,name=value")
		}
		headers[name] = decoded
	}
	return headers, nil
}
