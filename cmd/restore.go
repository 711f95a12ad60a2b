package cmd

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func restoreCommand(schema string) *cobra.Command {
	var db string
	var force, acceptRollback bool
	cmd := &cobra.Command{
		Use:   "restore IN",
		Short: "Replace the database with a backup",
		Long: `Verify a backup completely and put it in place of the database. An existing database is replaced
only with --force, and never while it is in use.

With --force alone, the command refuses a restore that would lose something (exit status 5) and
lists the losses: records, companies, keys, clients, agents and passports that the backup
lacks, cosignatures that a witness would forget, revocations and deletions that would be
undone, and chains with another history. It also refuses if it cannot read the existing
database. With --force --accept-rollback it restores and prints the same list.

The head file is not changed. If it is ahead of the backup, the next start is read-only until
attestd accept-rollback.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("restore", "restore a PostgreSQL database with its own tools, and see docs/postgres.md for the checks; attestd move copies a file into an empty one", db, args[0]); err != nil {
				return err
			}
			if acceptRollback && !force {
				return usagef("--accept-rollback requires --force")
			}
			report, finish := progress()
			undone, err := admin.Restore(cmd.Context(), args[0], db, schema,
				admin.RestoreOptions{Force: force, AcceptRollback: acceptRollback, At: time.Now(), Progress: report})
			finish()
			for _, line := range undone.Lines {
				printable.Fprintf(cmd.ErrOrStderr(), "%s\n", line)
			}
			if undone.More > 0 {
				printable.Fprintf(cmd.ErrOrStderr(), "and %d more\n", undone.More)
			}
			if err == nil {
				printable.Fprintf(cmd.ErrOrStderr(), "restored %s to %s\n", args[0], db)
				if _, missing := os.Stat(store.HeadsBeside(db)); len(undone.Lines) > 0 || !force && missing == nil {
					printable.Fprintf(cmd.ErrOrStderr(),
						"if the head file is ahead of the backup, the next start is read-only until attestd accept-rollback --reason TEXT\n")
				}
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database, if nothing is lost")
	cmd.Flags().BoolVar(&acceptRollback, "accept-rollback", false,
		"with --force: replace it although something is lost or undone")
	return cmd
}
