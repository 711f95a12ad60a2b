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
		Short: "Copy the database into a new file, while a server runs or not",
		Long: `Copy the database into a new file that only its owner can read. Every chain of the copy is verified
before the file gets its name. An existing file is never overwritten.

The backup contains every private key, sealed if the database seals them. Protect it as you
protect the database.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("backup", "back up a PostgreSQL database with its own tools (pg_basebackup, pgBackRest, snapshots), and see docs/postgres.md for the checks; attestd move copies one into a file", db, args[0]); err != nil {
				return err
			}
			report, finish := progress()
			err := admin.Backup(cmd.Context(), db, args[0], schema, report)
			finish()
			if err == nil {
				printable.Fprintf(cmd.ErrOrStderr(), "backed up %s to %s and verified the copy\n", db, args[0])
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	return cmd
}
