package cmd

import (
	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store/admin"
)

func backupCommand(schema string) *cobra.Command {
	var db string
	cmd := &cobra.Command{
		Use:   "backup OUT",
		Short: "Copy the database into a new file, of a running server or without one",
		Long: `Copy the database into a new file that only its owner can read. The copy is checked, every chain of it,
before it gets its name; an existing file is never overwritten. It holds every private key, sealed where the
database has them sealed: keep it as you keep the database.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("backup", "back a PostgreSQL database up with its own tools (pg_basebackup, pgBackRest, snapshots), and see docs/postgres.md on what to check; attestd move copies one into a file", db, args[0]); err != nil {
				return err
			}
			report, finish := progress()
			err := admin.Backup(cmd.Context(), db, args[0], schema, report)
			finish()
			if err == nil {
				printable.Fprintf(cmd.ErrOrStderr(), "backed up %s to %s and checked it\n", db, args[0])
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	return cmd
}
