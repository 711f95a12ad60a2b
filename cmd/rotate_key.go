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
		Long: `Give a company a new signing key for its tokens and its next records. The old and the new key
both sign the rotation. Tokens signed with the old key are valid until they expire. With
--compromised, they are refused from now on.

With --company @installation, the key of the log of the companies changes. Witnesses then need
its new line, which attestd company-log prints.

For a database file, no server may have it open: while one runs, use POST
/v1/companies/rotate-keys. For PostgreSQL, servers may run meanwhile.`,
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
				return fmt.Errorf("%w; while a server runs, use POST /v1/companies/rotate-keys", err)
			}
			if err != nil {
				return err
			}
			var old, next keyring.Key
			err = admin.Run(cmd.Context(), s, store.RunOptions{}, func() error {
				of, err := s.Companies.Get(cmd.Context(), company)
				if company == store.InstallationID {
					of, err = s.Companies.Installation(cmd.Context())
				}
				if err == nil {
					old, next, err = s.Companies.RotateKey(cmd.Context(), store.Caller{Company: of, Role: store.Admin, At: time.Now()},
						compromised)
				}
				return err
			})
			if err != nil {
				return err
			}
			public := keys.Describe(next.Public)
			printable.Fprintf(cmd.OutOrStdout(), "%s: key %s signs from record %d on, fingerprint %s; key %s is retired\n",
				company, public.KID, next.From, public.Fingerprint, keys.Describe(old.Public).KID)
			return nil
		},
	}
	databaseFlag(cmd, &db)
	headsFlag(cmd, &heads)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&company, "company", "", "`ID` of the company")
	cmd.Flags().BoolVar(&compromised, "compromised", false, "refuse all tokens signed with the old key")
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
