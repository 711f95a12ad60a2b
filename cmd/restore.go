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
		Short: "Put a backup in place of the database",
		Long: `Check a backup wholly and put it in place. An existing database is replaced only with --force, and never while it is in use.

Where that takes something back, --force alone is refused (exit status 5), with a list: records, companies, keys, clients, agents and
passports that the backup lacks, cosignatures that a witness would forget, revocations and deletions that come undone, and chains whose
history is another. So it is where the existing database cannot be read. --force --accept-rollback goes on, and prints the same list.
The head file is left as it is: where it knows more than the backup, the next start writes nothing until attestd accept-rollback.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("restore", "restore a PostgreSQL database with its own tools, and see docs/postgres.md on what to check; attestd move copies a file into an empty one", db, args[0]); err != nil {
				return err
			}
			if acceptRollback && !force {
				return usagef("--accept-rollback goes with --force")
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
					printable.Fprintf(cmd.ErrOrStderr(), "where the head file knows more than the backup, the next start writes nothing until attestd accept-rollback --reason TEXT\n")
				}
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database, of which nothing is lost")
	cmd.Flags().BoolVar(&acceptRollback, "accept-rollback", false, "with --force: replace it whatever is lost or comes undone")
	return cmd
}
