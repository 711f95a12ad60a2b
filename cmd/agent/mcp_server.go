package agent

import (
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"attestd/agent/mcpserver"
	"attestd/cmd/cli"
)

func mcpServerCommand(version string) *cobra.Command {
	var listen, resource, issuer string
	config := mcpserver.Config{Version: version, Trusted: cli.TrustedKeyOf}
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

With --resource and --issuer, it is a protected resource of OAuth (RFC 9728) instead. A request
must have an access token that the company's issuer has issued for the URL of --resource. Its
scope limits what the tools do, with the credential of this process, which is of the same
company. A proxy in front of the command has the certificate of that URL.

With --agent, the tools attest only for this agent and search only its records.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Pinned != "" {
				if err := cli.CheckFingerprint("--pinned-key", config.Pinned); err != nil {
					return err
				}
			}
			switch {
			case (resource == "") != (issuer == ""):
				return cli.Usagef("--resource and --issuer go together")
			case resource != "" && listen == "":
				return cli.Usagef("--resource goes with --listen")
			case listen != "":
				return listenMCP(cmd, listen, config, resource, issuer)
			}
			c, err := cli.Connect(cmd)
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
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &config.Agent, "")
	cmd.Flags().StringVar(&listen, "listen", "",
		"serve HTTP on this loopback `address`, such as 127.0.0.1:8081, instead of standard input and output")
	cmd.Flags().StringVar(&config.Pinned, "pinned-key", "",
		"`fingerprint` (SHA256:…) of a key of the company, to verify proofs with (default: the key of attestd trust)")
	cmd.Flags().StringVar(&resource, "resource", "",
		"with --listen: public `URL` of this server, for which access tokens must be, such as https://mcp.example.com/mcp")
	cmd.Flags().StringVar(&issuer, "issuer", "",
		"with --resource: `URL` of the company's issuer, such as https://attest.example.com/o/acme")
	// ATTESTD_LISTEN is the address of attestd serve.
	for _, name := range []string{"pinned-key", "listen", "resource", "issuer"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"}) // the flag is there
	}
	return cmd
}
