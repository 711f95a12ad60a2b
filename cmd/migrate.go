package cmd

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/store"
)

func migrateCommand() *cobra.Command {
	var db, role string
	var domain cred.Domain
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "migrate --db URL",
		Short: "Make or upgrade the tables of a PostgreSQL database",
		Long: `Make the tables in an empty PostgreSQL database, or bring those of an older schema to the one of this program, as the role that owns them. Servers of the version before go on
meanwhile; replace them afterwards, one by one. Each step is whole or absent, and two that migrate at once do it once. What is not an attestd database, is of a newer one, or is not UTF8
is left as it was (exit statuses 8 and 5). A database file needs none of this: attestd serve upgrades it.

With --grants ROLE it prints the SQL that lets a role serve and do no more: it may add records and read them, and has no UPDATE, DELETE or TRUNCATE on what
only grows. The owner carries it out:

  attestd migrate --db postgres://owner@host/attestd --grants attestd | psql postgres://owner@host/attestd

The trust domain, the service name and the master key are for new tables, which have them for good, the key until it is changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !store.IsPostgres(db) {
				return usagef("migrate is for PostgreSQL, so --db must be a URL that begins with postgres://; attestd serve upgrades a file by itself")
			}
			if err := (cred.Domain{TrustDomain: cmp.Or(domain.TrustDomain, "attestd.local"), Service: cmp.Or(domain.Service, "service")}).Check(); err != nil {
				return usageError{err}
			}
			sealWith, err := master.read(cmd.Context())
			if err != nil {
				return err
			}
			m, err := store.Migrate(cmd.Context(), db, store.Options{Domain: domain, Master: sealWith})
			if err != nil {
				return err
			}
			say := func(format string, args ...any) { printable.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			switch {
			case m.IsNew:
				say("made the tables of schema %d in %s", m.Version, store.Name(db))
			case len(m.Steps) > 0:
				say("upgraded the tables in %s to schema %d", store.Name(db), m.Version)
			default:
				say("the tables in %s are of schema %d; there is nothing to do", store.Name(db), m.Version)
			}
			if role != "" {
				// SQL, which quotes names
				_, _ = io.WriteString(cmd.OutOrStdout(), store.Grants(m.Namespace, role))
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&role, "grants", "", "print the SQL that lets `ROLE` serve, and no more")
	cmd.Flags().StringVar(&domain.TrustDomain, "trust-domain", "", "SPIFFE trust `domain` of a new database (default attestd.local)")
	cmd.Flags().StringVar(&domain.Service, "service-name", "", "`name` of the service of a new database (default service)")
	master.add(cmd, "", "the master key that the keys in a new database are to be sealed with")
	return cmd
}
