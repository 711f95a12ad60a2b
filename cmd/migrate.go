package cmd

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/crypto/cred"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/db"
)

func migrateCommand() *cobra.Command {
	var database, role string
	var domain cred.Domain
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "migrate --db URL",
		Short: "Create or upgrade the tables of a PostgreSQL database",
		Long: `Create the tables in an empty PostgreSQL database, or upgrade them to the schema of this
program. Connect as the role that owns the tables. Servers of the previous version can run
meanwhile; replace them afterwards, one by one.

Each step is a transaction, and concurrent migrations apply it once. A database that is not an
attestd database, has a newer schema, or is not UTF8 is left unchanged (exit statuses 8 and 5).
After an upgrade to schema 21 it counts the bytes of all logs again, while the servers run; if it
ends before that is done, run it again.
A database file needs no migration: attestd serve upgrades it.

With --grants ROLE, prints the SQL that grants a role what attestd serve needs and no more. The
role can insert and read records, but has no UPDATE, DELETE or TRUNCATE on append-only tables.
The owner runs the SQL:

  attestd migrate --db postgres://owner@host/attestd --grants attestd | psql postgres://owner@host/attestd

The trust domain, the service name and the master key apply to new tables only. The first two
are fixed from then on; attestd rekey changes the master key.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !db.IsPostgres(database) {
				return cli.Usagef("migrate works on PostgreSQL only, so --db must be a URL that begins with postgres://; attestd serve upgrades a file by itself")
			}
			if err := (cred.Domain{TrustDomain: cmp.Or(domain.TrustDomain, cred.DefaultTrustDomain),
				Service: cmp.Or(domain.Service, "service")}).Check(); err != nil {
				return cli.UsageError{Err: err}
			}
			sealWith, err := master.read(cmd.Context())
			if err != nil {
				return err
			}
			m, err := store.Migrate(cmd.Context(), database, store.Options{Domain: domain, Master: sealWith})
			if err != nil {
				return err
			}
			report := func(format string, args ...any) { printable.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			switch {
			case m.IsNew:
				report("created the tables of schema %d in %s", m.Version, db.Name(database))
			case len(m.Steps) > 0:
				report("upgraded the tables in %s to schema %d", db.Name(database), m.Version)
			case m.Recounted > 0: // an upgrade that ended before this
			default:
				report("the tables in %s already have schema %d", db.Name(database), m.Version)
			}
			if m.Recounted > 0 {
				report("counted the bytes of all logs again: %d counted them wrongly, which the next start of a server records", m.Recounted)
			}
			if role != "" {
				// SQL quotes names itself.
				_, _ = io.WriteString(cmd.OutOrStdout(), store.Grants(m.Namespace, role))
			}
			return nil
		},
	}
	databaseFlag(cmd, &database)
	cmd.Flags().StringVar(&role, "grants", "", "print the SQL that grants `ROLE` what attestd serve needs")
	cmd.Flags().StringVar(&domain.TrustDomain, "trust-domain", "",
		"SPIFFE trust `domain` of a new database (default "+cred.DefaultTrustDomain+")")
	cmd.Flags().StringVar(&domain.Service, "service-name", "", "service `name` of a new database (default service)")
	master.add(cmd, "", "the master key that seals the keys in a new database")
	return cmd
}
