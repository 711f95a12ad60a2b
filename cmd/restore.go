package cmd

import (
	"fmt"

	"github.com/spf13/cobra"

	"attestd/store"
)

func restoreCommand() *cobra.Command {
	var db string
	var force bool
	cmd := &cobra.Command{
		Use:   "restore IN",
		Short: "Put a backup in place of the database",
		Long: `Check a backup wholly and put it in place. An existing database is replaced only with --force, and never while it is in use.
What was written after the backup is gone then, revocations and key deletions included.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, finish := progress()
			err := store.Restore(cmd.Context(), args[0], db, force, report)
			finish()
			if err == nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "restored %s to %s\n", args[0], db)
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database")
	return cmd
}
