package agent

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"attestd/agent/mcpproxy"
	"attestd/cmd/cli"
)

// oauthClientFlags name a client that is registered with the authorization server of an upstream.
type oauthClientFlags struct {
	id, secretFile, issuer, redirect string
}

func (f *oauthClientFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "client-id", "", "with --sign-in: `ID` of an OAuth client that is registered with the authorization server, or the URL of a client ID metadata document")
	cmd.Flags().StringVar(&f.secretFile, "client-secret-file", "", "`file` with the secret of that client, private to the user; needs --issuer")
	cmd.Flags().StringVar(&f.issuer, "issuer", "", "`URL` of the only authorization server to sign in at as that client")
	cmd.Flags().StringVar(&f.redirect, "redirect-url", "", "redirect `URL` that is registered for that client, without a port for each port (default http://127.0.0.1/callback)")
}

// client returns the client; the zero value for none.
func (f *oauthClientFlags) client() (c mcpproxy.OAuthClient, err error) {
	switch {
	case *f == oauthClientFlags{}:
		return c, nil
	case f.id == "":
		return c, cli.Usagef("--client-secret-file, --issuer and --redirect-url need --client-id")
	case f.secretFile != "" && f.issuer == "":
		return c, cli.Usagef("--client-secret-file needs --issuer, because the upstream names its authorization server: without it the secret could go to any")
	}
	c.ID = f.id
	if f.issuer != "" {
		c.Issuer = strings.TrimSuffix(f.issuer, "/")
		if err := checkIssuer(c.Issuer); err != nil {
			return c, err
		}
	}
	if f.redirect != "" {
		if c.Redirect, err = mcpproxy.ParseRedirect(f.redirect); err != nil {
			return c, cli.Usagef("--redirect-url %v", err)
		}
	}
	if f.secretFile == "" {
		return c, nil
	}
	text, err := cli.ReadPrivate(f.secretFile)
	if err != nil {
		return c, fmt.Errorf("--client-secret-file: %w", err)
	}
	if c.Secret = strings.TrimSpace(text); c.Secret == "" {
		return c, fmt.Errorf("--client-secret-file: %s is empty", f.secretFile)
	}
	return c, nil
}
