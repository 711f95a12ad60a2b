package agent

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/crypto/tokenkey"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

func tokenCommand() *cobra.Command {
	var r attestd.TokenRequest
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "token --agent ID --audience URL",
		Short: "Print a token that tells others who an agent is",
		Long: `Print a JWT that says to its audience who the agent is: for OIDC federation with a cloud, an MCP
server, or an authorization server that takes JWT assertions. Its bearer is taken for the agent
until it ends, so it goes to its audience and into no log. The audience verifies it with the keys of
the company's issuer: .../o/COMPANY/.well-known/openid-configuration on the server.

If the agent has a key on this machine ("attestd agent-key enrol" makes one), the command signs in
as the agent. Otherwise it needs the credential of an admin.

` + cli.ConnectionHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case r.AgentID == "":
				return cli.Usagef("--agent is required")
			case len(r.Audience) == 0 || slices.Contains(r.Audience, ""):
				return cli.Usagef("--audience is required: who is to accept the token")
			case !slices.Contains(tokenkey.Algorithms, r.Algorithm):
				return cli.Usagef("--alg must be one of %s, got %q", strings.Join(tokenkey.Algorithms, ", "), r.Algorithm)
			case r.Lifetime < time.Second || r.Lifetime > time.Hour || r.Lifetime%time.Second != 0:
				return cli.Usagef("--ttl must be whole seconds from 1s to 1h, got %s", r.Lifetime)
			}
			_, c, err := connectAs(cmd, r.AgentID, "")
			if err != nil {
				return err
			}
			defer c.Close()
			token, err := c.CreateAgentToken(cmd.Context(), r)
			if err != nil {
				return err
			}
			if asJSON {
				return printable.JSON(cmd.OutOrStdout(), map[string]any{"token": token.Token, "tokenType": token.TokenType, "expiresAt": token.ExpiresAt})
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s\n", token.Token)
			return nil
		},
	}
	cli.URLFlag(cmd)
	cli.AgentFlag(cmd, &r.AgentID, "")
	cmd.Flag("agent").Usage = "`ID` of the agent"
	cmd.Flags().StringArrayVar(&r.Audience, "audience", nil, "`URL` or name of who is to accept the token; repeat it for several")
	cmd.Flags().StringVar(&r.Algorithm, "alg", tokenkey.ES256, "`algorithm` of the signature: ES256, RS256 (for Microsoft Entra) or EdDSA")
	cmd.Flags().DurationVar(&r.Lifetime, "ttl", 5*time.Minute, "`duration` until the token ends, at most 1h")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with token, tokenType and expiresAt")
	return cmd
}
