package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func acceptRollbackCommand(schema string) *cobra.Command {
	var db, heads, reason string
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "accept-rollback --reason TEXT",
		Short: "Go on with a database that is behind its head file, or a witness",
		Long: `Go on with a database that is behind what its head file knows: an older copy, or one with another history, of which attestd serve
writes nothing. So too with one company that is behind a checkpoint which it has signed and a witness has shown, or the database keeps. What was lost is recorded for good, with the reason, in the control log of each company that it concerns, and the head file
is made anew from what is there. Works on a database file that no server has open, and on PostgreSQL while all servers are stopped. Where nothing is behind, there is nothing to accept (exit status 5).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if reason == "" {
				return usagef("--reason is required")
			}
			if store.IsPostgres(db) && heads == "" {
				return usagef("--heads is required with a PostgreSQL database")
			}
			if err := refuseOlder(cmd.Context(), db); err != nil {
				return err
			}
			o := admin.AcceptOptions{Heads: headsPath(heads, db), Reason: reason}
			if o.Master, err = master.read(cmd.Context()); err != nil {
				return err
			}
			accepted, err := admin.AcceptRollback(cmd.Context(), db, schema, o)
			if errors.Is(err, store.ErrInUse) {
				return fmt.Errorf("%w; stop the server first", err)
			}
			if err != nil {
				return err
			}
			for _, b := range accepted {
				printable.Fprintf(cmd.OutOrStdout(), "%s\n", behindLine(b))
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	headsFlag(cmd, &heads)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the control logs: why it is right that the database is older")
	return cmd
}

func headsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "heads", "", "head `file`, best on another disk (default: beside a database file, its name with .heads; of a PostgreSQL database, none)")
}

// headsPath is where the head file of a database is.
func headsPath(flag, db string) string {
	if flag == "" && !store.IsPostgres(db) {
		return store.HeadsBeside(db)
	}
	return flag
}

// behindLine says for the operator in what a log is behind.
func behindLine(b store.Behind) string {
	if b.Log == store.Cosigned {
		return "as a witness: log " + b.Origin() + " " + b.Why
	}
	company := b.Company
	if company == "" {
		company = "a company that is gone"
	}
	return fmt.Sprintf("%s: log %s (%x) %s", company, b.Log, b.Known.LogID, b.Why)
}
