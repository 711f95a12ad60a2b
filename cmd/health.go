package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

// healthTimeout is the time limit of a health check. Supervisors end theirs after a few seconds.
const healthTimeout = 4 * time.Second

func healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask a server whether it answers",
		Long: `Ask a server whether it answers (GET /v1/health), or with --ready whether it accepts writes (GET
/readyz). The exit status is 0 if so, else 1. It needs no credential, so that a container without a
shell can check itself. The address comes from --url or ATTESTD_URL.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config := attestd.Config{URL: cmd.Flag("url").Value.String(), Retry: &attestd.Retry{}}
			if config.URL == "" {
				config.URL = cli.DefaultURL
			}
			c, err := cli.NewClient(config)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), healthTimeout)
			defer cancel()
			if !ready {
				if err := c.Health(ctx); err != nil {
					return err
				}
				printable.Fprintf(cmd.OutOrStdout(), "ok\n")
				return nil
			}
			state, err := c.Ready(ctx)
			if err != nil {
				return err
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s\n", state.Status)
			return nil
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().BoolVar(&ready, "ready", false, "ask whether the server accepts writes")
	return cmd
}
