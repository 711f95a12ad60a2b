package cmd

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"attestd/agent/mcpserver"
	"attestd/sdk/attestd"
)

func mcpServerCommand(version string) *cobra.Command {
	var listen string
	config := mcpserver.Config{Version: version}
	cmd := &cobra.Command{
		Use:   "mcp-server",
		Short: "Offer attestd's operations as tools of an MCP server",
		Long: `Offer attestd's operations to a model as the tools of an MCP server: attest, verify, prove,
check_passport and search_records. The role of the credential limits the tools: with a
reader's credential, attest and check_passport return an error that asks for a writer's.

Over standard input and output, the tools use the credential of this process. With --listen,
the command serves streamable HTTP at /mcp on a loopback address. There each request must have
its own credential (Authorization: Bearer …), which is forwarded to attestd, and the credential
of this process is not used.

With --agent, the tools attest only for this agent and search only its records.

` + connectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Pinned != "" && !fingerprintForm.MatchString(config.Pinned) {
				return usagef("--pinned-key must be a fingerprint, SHA256: and 43 characters")
			}
			if listen != "" {
				return listenMCP(cmd, listen, config)
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			err = mcpserver.New(config).Server(c).Run(cmd.Context(), &mcp.StdioTransport{})
			if cmd.Context().Err() != nil {
				return nil // a signal is the normal way to end this server
			}
			return err
		},
	}
	urlFlag(cmd)
	agentFlag(cmd, &config.Agent, "")
	cmd.Flags().StringVar(&listen, "listen", "",
		"serve HTTP on this loopback `address`, such as 127.0.0.1:8081, instead of standard input and output")
	cmd.Flags().StringVar(&config.Pinned, "pinned-key", "",
		"`fingerprint` (SHA256:…) of a key of the company, to verify proofs with")
	// ATTESTD_LISTEN is the address of attestd serve.
	for _, name := range []string{"pinned-key", "listen"} {
		_ = cmd.Flags().SetAnnotation(name, typedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}

// listenMCP serves HTTP until a signal arrives.
func listenMCP(cmd *cobra.Command, listen string, config mcpserver.Config) error {
	if err := checkListen(listen); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(listen)
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return usagef("--listen must be a loopback address, because credentials arrive unencrypted; got %q", listen)
	}
	service, err := address(cmd)
	if err != nil {
		return err
	}
	if _, err := attestd.New(service); err != nil {
		return usageError{err}
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	service.HTTP = &http.Client{Transport: transport} // shared by all requests
	// A client waits for the response, so retries are short.
	service.Retry = &attestd.Retry{Times: 2, Min: 100 * time.Millisecond, Max: time.Second}
	server := &http.Server{
		Handler:           mcpserver.New(config).Handler(service, port),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 5 * time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	printError("attestd %s serves MCP on http://%s/mcp for %s\n", config.Version, listener.Addr(), service.URL)
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return server.Shutdown(last)
	})
	return group.Wait()
}

// address finds the server's address as connection does, for a process without a credential.
func address(cmd *cobra.Command) (config attestd.Config, err error) {
	config.URL = cmd.Flag("url").Value.String()
	if config.URL == "" {
		var file map[string]string
		if _, file, err = readConnectionFile(); err != nil {
			return config, err
		}
		config.URL = file["ATTESTD_URL"]
	}
	if config.URL == "" {
		config.URL = defaultURL
	}
	return config, nil
}
