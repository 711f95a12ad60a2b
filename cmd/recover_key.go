package cmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func recoverKeyCommand(schema string) *cobra.Command {
	var db, company string
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "recover-key --company ID",
		Short: "Print a company's first admin key",
		Long: `Print the oldest API key of a company that can do everything and does not expire, on standard
output. A server may run meanwhile.

The company's control log records that the key was shown. If a server has the file open, it
appends that record at its next start. If the database cannot be written, as on read-only
media, the key is printed anyway, with a warning on standard error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if company == "" {
				return cli.Usagef("--company is required")
			}
			sealedWith, err := master.read(cmd.Context())
			if err != nil {
				return err
			}
			key, notRecorded, err := admin.RecoverKey(cmd.Context(), db, schema, company, sealedWith, time.Now())
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("no API key for company %q in %s: %w", company, shown(db), err)
			}
			if err != nil {
				return err
			}
			if notRecorded != nil {
				printable.Fprintf(cmd.ErrOrStderr(), "warning: the control log does not record that this key was shown: %v\n",
					notRecorded)
			}
			printable.Fprintf(cmd.OutOrStdout(), "%s\n", key.Key)
			return nil
		},
	}
	databaseFlag(cmd, &db)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	return cmd
}
