package cmd

import (
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server/local"
	"attestd/service"
)

func personCommand(schema string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "person",
		Short: "Invite people to the console, while a server runs or not",
		Long: `People sign in to the console with passkeys. An invitation is the way in: for the first person of a
company, and for one who has lost the last passkey.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(personInviteCommand(schema))
	return cmd
}

func personInviteCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var p local.PersonInvitation
	var console string
	cmd := &cobra.Command{
		Use:   "invite --company ID",
		Short: "Print a link with which a person makes a passkey",
		Long: `Print a link with which a person makes a passkey and signs in. It counts once, for an hour, and only
its hash is stored. The company's control log records it. A person who is not there is made with
the role; one who is there keeps what the person has.

While a server has the database file open, it makes the invitation itself; this command asks it
over the socket next to the file, which only the server's user and root can use.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.CompanyID == "" {
				return cli.Usagef("--company is required")
			}
			return f.change(cmd.Context(), func(o operations) error {
				made, err := o.InvitePerson(cmd.Context(), p)
				if err == nil {
					printable.Fprintf(cmd.OutOrStdout(), "%s\n", service.InvitationPage(console, made.Secret))
				}
				return err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&p.CompanyID, "company", "", "`ID` of the company")
	cmd.Flags().StringVar(&p.PersonID, "person", "admin", "`ID` of the person")
	cmd.Flags().StringVar(&p.Role, "role", "admin", "`role` of a person who is made: admin, approver or reader")
	cmd.Flags().StringVar(&console, "console", "http://localhost:8080", "`URL` of the console: --base-url of the server, or localhost with its port")
	return cmd
}
