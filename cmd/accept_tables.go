package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

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
		Short: "Go on with tables that differ from a control log",
		Long: `Go on with the tables of a company as they are, though its control log says otherwise. Until then attestd serve refuses the
company's changes and tokens with TABLES_CHANGED. What differs is printed, and recorded for good in the control log, row by row, with the reason.
Put a backup in place instead, unless you know who changed the rows and why: whoever did it had write access to the database.
Signing keys, records, and which companies there are cannot be accepted. Works on a database file that no server has open, and on PostgreSQL while all servers are
stopped. Where nothing differs, there is nothing to accept (exit status 5).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if company == "" {
				return usagef("--company is required")
			}
			if reason == "" {
				return usagef("--reason is required")
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
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the control log: why it is right that the tables differ")
	return cmd
}
