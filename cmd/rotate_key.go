package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/server/local"
	"attestd/store"
)

func rotateKeyCommand(schema string) *cobra.Command {
	f := operatorFlags{schema: schema}
	var r local.Rotation
	cmd := &cobra.Command{
		Use:   "rotate-key --company ID",
		Short: "Give a company a new signing key, while a server runs or not",
		Long: `Give a company a new signing key for its tokens and its next records. The old and the new key
both sign the rotation. Tokens signed with the old key are valid until they expire. With
--compromised, they are refused from now on.

With --company @installation, the key of the log of the companies changes. Witnesses then need
its new line, which attestd company-log prints.

While a server has the database file open, it rotates the key itself; this command asks it over
the socket next to the file, which only the server's user and root can use.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.CompanyID == "" {
				return cli.Usagef("--company is required")
			}
			return f.change(cmd.Context(), func(o operations) error {
				next, err := o.RotateKey(cmd.Context(), r)
				if err == nil {
					printable.Fprintf(cmd.OutOrStdout(), "%s: key %s signs from record %d on, fingerprint %s; key %s is retired\n",
						r.CompanyID, next.KID, next.From, next.Fingerprint, next.Retired)
				}
				return err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&r.CompanyID, "company", "", "`ID` of the company")
	cmd.Flags().BoolVar(&r.Compromised, "compromised", false, "refuse all tokens signed with the old key")
	return cmd
}

// refuseOlder returns an error for a missing database, or one of an older schema. Only attestd
// serve creates and upgrades databases, because its flags set the names of their logs.
func refuseOlder(ctx context.Context, db string) error {
	found, err := store.OpenReadOnly(ctx, db)
	if err != nil {
		return err
	}
	defer found.Close()
	if !found.UpToDate() {
		return fmt.Errorf("%w: %s has an older schema; start attestd serve once to upgrade it", store.ErrRefused, shown(db))
	}
	return nil
}
