package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"attestd/agent/localhttp"
	"attestd/agent/mcpserver"
	"attestd/cmd/cli"
	"attestd/internal/keysets"
	"attestd/sdk/attestd"
)

// listenMCP serves HTTP until a signal arrives: as a protected resource, where one is named.
func listenMCP(cmd *cobra.Command, listen string, config mcpserver.Config, resource, issuer string) error {
	if err := checkLoopback(listen, "credentials arrive unencrypted"); err != nil {
		return err
	}
	if resource != "" {
		return listenProtected(cmd, listen, config, resource, issuer)
	}
	service, err := address(cmd)
	if err != nil {
		return err
	}
	withPatience(&service)
	if _, err := attestd.New(service); err != nil {
		return cli.UsageError{Err: err}
	}
	return listenHTTP(cmd, listen, func(address, port string) http.Handler {
		cli.PrintError("attestd %s serves MCP on http://%s/mcp for %s\n", config.Version, address, service.URL)
		return mcpserver.New(config).Handler(service, port)
	})
}

// listenProtected serves a protected resource. The credential of this process must be of the
// company whose issuer is named.
func listenProtected(cmd *cobra.Command, listen string, config mcpserver.Config, resource, issuer string) error {
	if err := mcpserver.CheckResource(resource); err != nil {
		return cli.Usagef("--resource %v, got %q", err, resource)
	}
	if err := checkIssuer(issuer); err != nil {
		return err
	}
	service, err := cli.Connection(cmd)
	if err != nil {
		return err
	}
	withPatience(&service)
	client, err := cli.NewClient(service)
	if err != nil {
		return err
	}
	defer client.Close()
	company, err := client.Company(cmd.Context())
	if err != nil {
		return fmt.Errorf("the company of the credential: %w", err)
	}
	if !strings.HasSuffix(issuer, "/o/"+company.CompanyID) {
		return cli.Usagef("the credential is of the company %s, whose issuer ends with /o/%s; --issuer is %q", company.CompanyID, company.CompanyID, issuer)
	}
	// The operator has named the issuer, so it may be in a private network.
	sets := keysets.New(keysets.NewClient(keysets.Options{AllowPrivate: true, Roots: cli.TrustedRoots(), UserAgent: "attestd/" + config.Version}))
	defer sets.Close()
	protected := &mcpserver.Resource{URL: resource, Issuer: issuer, Company: company.CompanyID, Keys: sets, Service: client}
	return listenHTTP(cmd, listen, func(address, port string) http.Handler {
		cli.PrintError("attestd %s serves MCP as %s on http://%s for %s\n", config.Version, resource, address, service.URL)
		return mcpserver.New(config).Protected(protected, port)
	})
}

// checkIssuer requires the URL of an issuer whose keys cannot be replaced in transit.
func checkIssuer(text string) error {
	u, err := url.Parse(text)
	visible := strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) < 0
	if err != nil || !visible || u.Host == "" || u.User != nil || strings.ContainsAny(text, "?#") || strings.HasSuffix(text, "/") {
		return cli.Usagef("--issuer must look like https://attest.example.com/o/acme, got %q", text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !localhttp.IsLoopback(u.Hostname())) {
		return cli.Usagef("--issuer must begin with https://, unless it is of this machine; got %q", text)
	}
	return nil
}

// withPatience makes retries short, because a client waits for the response, and connections
// shared.
func withPatience(service *attestd.Config) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	service.HTTP = &http.Client{Transport: transport}
	service.Retry = &attestd.Retry{Times: 2, Min: 100 * time.Millisecond, Max: time.Second}
}

// listenHTTP serves a handler, which is made for the address and port on which it listens.
func listenHTTP(cmd *cobra.Command, listen string, handler func(address, port string) http.Handler) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	server := &http.Server{
		Handler:           handler(listener.Addr().String(), port),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	return serveUntilStopped(cmd.Context(), server, listener, func() error {
		last, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 10*time.Second)
		defer cancel()
		return server.Shutdown(last)
	})
}

// serveUntilStopped serves until ctx is done, and then calls stop, which ends the server.
func serveUntilStopped(ctx context.Context, server *http.Server, listener net.Listener, stop func() error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return stop()
	})
	return group.Wait()
}

// address finds the server's address as connection does, for a process without a credential.
func address(cmd *cobra.Command) (config attestd.Config, err error) {
	config.URL = cmd.Flag("url").Value.String()
	if config.URL == "" {
		var file map[string]string
		if _, file, err = cli.ReadConnectionFile(); err != nil {
			return config, err
		}
		config.URL = file["ATTESTD_URL"]
	}
	if config.URL == "" {
		config.URL = cli.DefaultURL
	}
	return config, nil
}
