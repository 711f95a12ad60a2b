package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/projection"
)

func acceptTablesCommand(schema string) *cobra.Command {
	var db, heads, company, reason string
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "accept-tables --company ID --reason TEXT",
		Short: "Accept tables that differ from a control log",
		Long: `Accept the current tables of a company although they differ from its control log. Until then
attestd serve refuses the company's changes and tokens with TABLES_CHANGED. Each differing row
is printed, and recorded permanently in the control log with the reason.

Restore a backup instead, unless you know who changed the rows and why: that person had write
access to the database. A setting is recorded as it is, and access tokens that the service has not
written are deleted; for these, ID may be @installation. Signing keys, records, secrets that do
not match their rows, what the database is, and which companies exist cannot be accepted.

The servers must be stopped: no process may have the database file open. When nothing differs,
the command is refused (exit status 5).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if company == "" {
				return cli.Usagef("--company is required")
			}
			if reason == "" {
				return cli.Usagef("--reason is required")
			}
			if err := refuseOlder(cmd.Context(), db); err != nil {
				return err
			}
			options := store.Options{Heads: headsPath(heads, db)}
			if options.Master, err = master.read(cmd.Context()); err != nil {
				return err
			}
			s, err := store.Open(cmd.Context(), db, schema, options)
			if errors.Is(err, store.ErrInUse) {
				return fmt.Errorf("%w; stop the server first", err)
			}
			if err != nil {
				return err
			}
			var accepted []*projection.Difference
			err = admin.Run(cmd.Context(), s, store.RunOptions{}, func() error {
				accepted, err = admin.AcceptTables(cmd.Context(), s, admin.AcceptTablesOptions{Company: company, Reason: reason})
				return err
			})
			if err != nil {
				return err
			}
			for _, d := range accepted {
				printable.Fprintf(cmd.OutOrStdout(), "%s\n", d.Error())
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	headsFlag(cmd, &heads)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the control log: why the differing tables are right")
	return cmd
}
