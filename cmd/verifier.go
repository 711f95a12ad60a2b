package cmd

import (
	"github.com/spf13/cobra"

	"attestd/web"
)

// verifierCommand returns the command that prints the page which checks evidence.
func verifierCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verifier",
		Short: "Print verifier.html, a page that checks evidence from disk, without a server",
		Long: `Print verifier.html: one file that checks evidence and the files of sessions in any browser, from
disk. It makes no request. Servers offer it as /verifier.html, too, but take it from a program that
you trust, and not from the server that made the evidence.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(web.Verifier())
			return err
		},
	}
}
