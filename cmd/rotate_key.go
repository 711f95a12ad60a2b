package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"attestd/crypto/keyring"
	"attestd/crypto/keys"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func rotateKeyCommand(schema string) *cobra.Command {
	var db, heads, company string
	var compromised bool
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "rotate-key --company ID",
		Short: "Give a company a new signing key",
		Long: `Give a company a new key, which signs its tokens, and its records from the next one on. Both keys sign that one
follows the other. Tokens of the old key verify until they expire; with --compromised, all that were signed before are refused from now on.
With --company @installation it changes the key of the log of the companies; witnesses need its new line then (attestd company-log).
Works on a database file that no server has open: of a running one, ask POST /v1/companies/rotate-keys. On PostgreSQL it works beside the servers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if company == "" {
				return usagef("--company is required")
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
				return fmt.Errorf("%w; of a running server, ask POST /v1/companies/rotate-keys", err)
			}
			if err != nil {
				return err
			}
			var old, next keyring.Key
			err = admin.Run(cmd.Context(), s, store.RunOptions{}, func() error {
				of, err := s.Company(cmd.Context(), company)
				if company == store.InstallationID {
					of, err = s.Installation(cmd.Context())
				}
				if err == nil {
					old, next, err = s.RotateKey(cmd.Context(), store.Caller{Company: of, Role: store.Admin, At: time.Now()}, compromised)
				}
				return err
			})
			if err != nil {
				return err
			}
			public := keys.Describe(next.Public)
			printable.Fprintf(cmd.OutOrStdout(), "%s: key %s signs from record %d on, fingerprint %s; key %s has ended\n",
				company, public.KID, next.From, public.Fingerprint, keys.Describe(old.Public).KID)
			return nil
		},
	}
	databaseFlag(cmd, &db)
	headsFlag(cmd, &heads)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	cmd.Flags().BoolVar(&compromised, "compromised", false, "refuse all tokens that were signed before")
	return cmd
}

// refuseOlder keeps commands that change a database from making one, and from upgrading one:
// whoever serves it says which names its logs get.
func refuseOlder(ctx context.Context, db string) error {
	found, err := store.OpenReadOnly(ctx, db)
	if err != nil {
		return err
	}
	defer found.Close()
	if !found.UpToDate() {
		return fmt.Errorf("%w: %s is of an older schema; start attestd serve once, which upgrades it", store.ErrRefused, shown(db))
	}
	return nil
}
