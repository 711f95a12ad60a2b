package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// openTimeout is the time within which a server must answer.
const openTimeout = 5 * time.Second

func openCommand() *cobra.Command {
	var company string
	var onlyPrint bool
	cmd := &cobra.Command{
		Use:   "open",
		Short: "Open the console in the browser",
		Long: `Open the console of a server in the browser, and print its address. The server is that of --url,
ATTESTD_URL, the file that "attestd init" wrote, or ` + cli.DefaultURL + `. The address contains no
credential: sign in with an API key.

With a key that "attestd trust" has stored for the company, the address contains its fingerprint:
the sign-in form shows it, and signing in confirms that key and no other. The company is that of
--company or of the credential.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), openTimeout)
			defer cancel()
			address, err := consoleAddress(ctx, cmd, company)
			if err != nil {
				return err
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s\n", address)
			if !onlyPrint {
				if err := browse(address); err != nil {
					cli.PrintError("attestd: no browser was started (%v); open the address yourself\n", err)
				}
			}
			return nil
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company whose trusted key is entered (default: that of the credential)")
	cmd.Flags().BoolVar(&onlyPrint, "print", false, "print the address alone")
	_ = cmd.Flags().SetAnnotation("company", cli.TypedOnly, []string{"true"}) // the flag is there
	return cmd
}

// consoleAddress returns the address of the console of a server that answers.
func consoleAddress(ctx context.Context, cmd *cobra.Command, company string) (string, error) {
	config, err := cli.Connection(cmd)
	if err != nil && !errors.Is(err, cli.ErrNoCredential) {
		return "", err
	}
	config.Retry = &attestd.Retry{}
	c, err := cli.NewClient(config)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.Health(ctx); err != nil {
		return "", fmt.Errorf("nothing to open: %w", err)
	}
	address := c.URL() + "/"
	trusted, err := cli.ReadTrustedKeys()
	if err != nil || len(trusted) == 0 {
		return address, err
	}
	if company == "" && config.Credential != nil {
		if own, err := c.Company(ctx); err == nil {
			company = own.CompanyID
		}
	}
	key := trusted.Fingerprint(company)
	if key == "" {
		return address, nil
	}
	return address + "#/start?" + url.Values{"fingerprint": {key}}.Encode(), nil
}
