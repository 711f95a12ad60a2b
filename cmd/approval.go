package cmd

import (
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/sdk/attestd"
)

func approvalListCommand() *cobra.Command {
	var asJSON bool
	var state string
	cmd := &cobra.Command{
		Use: "list", Short: "List approvals, the newest first", Args: cobra.NoArgs,
		Long: "List approvals, the newest first: ID, state, when it ends, agent and tool.\n\n" + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				for a, err := range c.Approvals(cmd.Context(), state) {
					switch {
					case err != nil:
						return err
					case asJSON:
						if err := printable.JSON(cmd.OutOrStdout(), a); err != nil {
							return err
						}
					default:
						printable.Fprintf(cmd.OutOrStdout(), "%s %s %s %s %s\n", a.ID, a.State, a.ExpiresAt, a.AgentID, a.Tool)
					}
				}
				return nil
			})
		},
	}
	cli.URLFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	cmd.Flags().StringVar(&state, "state", attestd.ApprovalPending, "only those in this `state`: pending, approved, denied, expired, used or withdrawn; \"\" for all")
	return cmd
}

func approvalShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Print an approval as JSON", Args: cobra.ExactArgs(1),
		Long: "Print an approval as JSON.\n\n" + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				a, err := c.Approval(cmd.Context(), args[0], 0)
				if err != nil {
					return err
				}
				return printable.JSON(cmd.OutOrStdout(), a)
			})
		},
	}
	cli.URLFlag(cmd)
	return cmd
}

func approveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "approve [ID]", Aliases: []string{"approval"}, Short: "Print the page that decides an approval; list and show approvals", Args: cobra.MaximumNArgs(1),
		Long: `Print the address of the page of the console on which a person decides an approval: of the ID, or
else of the pending one that was asked for first. Nothing is approved by this command: a passkey
does that.

` + cli.ConnectionHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withClient(cmd, func(c *attestd.Client) error {
				var found attestd.Approval
				var err error
				if len(args) > 0 {
					found, err = c.Approval(cmd.Context(), args[0], 0)
				} else {
					// the oldest is last
					for a, failed := range c.Approvals(cmd.Context(), attestd.ApprovalPending) {
						if err = failed; err != nil {
							break
						}
						found = a
					}
				}
				switch {
				case err != nil:
					return err
				case found.ID == "":
					printable.Fprintf(cmd.ErrOrStderr(), "No approval is pending.\n")
					return nil
				}
				printable.Fprintf(cmd.OutOrStdout(), "%s\n", found.URL)
				return nil
			})
		},
	}
	cli.URLFlag(cmd)
	cmd.AddCommand(approvalListCommand(), approvalShowCommand())
	return cmd
}
