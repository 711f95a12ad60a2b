package cmd

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"attestd/cmd/cli"
	"attestd/cmd/demo"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

const demoTimeout = 30 * time.Second

func demoCommand() *cobra.Command {
	var company string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Register a company with a week of five agents, to look around in",
		Long: `Register a company on a server and fill it with the week of five agents: a ticket, a fix that one of them
signs step by step, a review, a release, and an incident in which a call that was refused runs all
the same. There are agents' own keys, sealed sessions, delegations, a person for whom an agent acts,
and a witness.

The log has the times at which it received the records, all within seconds. When something happened
in the story, from Monday to Friday of the last week that is over, stands in each payload as "at".
The identity provider and the witness are the demo's own: their keys are made here and forgotten.

The company is named demo, or demo-2 and so on where that is taken. The command prints a link to the console with the fingerprint of the company's signing key, which
the console asks you to sign in with, and the API key to paste there. It also prints the thumbprints
of the agents' keys. The server is that of --url, ATTESTD_URL, or ` + cli.DefaultURL + `. It must
allow to register a company. No record is ever deleted, so choose a server that you can throw away.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			base := strings.TrimSuffix(cmd.Flag("url").Value.String(), "/")
			if base == "" {
				base = cli.DefaultURL
			}
			if _, err := attestd.New(attestd.Config{URL: base}); err != nil {
				return cli.UsageError{Err: err}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
			defer cancel()
			made, err := demo.Play(ctx, base, company, time.Now(), demoProgress(cmd.ErrOrStderr()))
			switch {
			case errors.Is(err, demo.ErrName):
				return cli.UsageError{Err: err}
			case err != nil:
				return err
			}
			return printDemo(cmd.OutOrStdout(), made, base+"/#/start?fingerprint="+made.Fingerprint, asJSON)
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company to register (default: demo, or demo-2 and so on where that is taken)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with companyId, apiKey, fingerprint, agentKeys and console")
	return cmd
}

// demoProgress names each step on a terminal.
func demoProgress(w io.Writer) func(does string) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func(string) {}
	}
	return func(does string) { printable.Fprintf(w, "· %s\n", does) }
}

func printDemo(w io.Writer, made demo.Company, console string, asJSON bool) error {
	if asJSON {
		return printable.JSON(w, map[string]any{
			"companyId": made.ID, "apiKey": made.APIKey, "fingerprint": made.Fingerprint, "agentKeys": made.AgentKeys, "console": console,
		})
	}
	printable.Fprintf(w, "company      %s\nconsole      %s\nAPI key      %s\nfingerprint  %s\n", made.ID, console, made.APIKey, made.Fingerprint)
	for _, agent := range slices.Sorted(maps.Keys(made.AgentKeys)) {
		printable.Fprintf(w, "agent key    %s of %s\n", made.AgentKeys[agent], agent)
	}
	return nil
}
