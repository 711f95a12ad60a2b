package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/db"
)

func acceptRollbackCommand(schema string) *cobra.Command {
	var database, heads, reason string
	var master masterKeyFlags
	cmd := &cobra.Command{
		Use:   "accept-rollback --reason TEXT",
		Short: "Accept a database that is behind its head file, or a witness",
		Long: `Accept a database that is behind its head file: an older copy, or one with another history.
Until then attestd serve is read-only. The same holds for one company whose log is behind a
checkpoint that it signed and that a witness returned or the database stores.

The loss and the reason are recorded permanently in the control log of each affected company,
and the head file is rewritten from the database.

The servers must be stopped: no process may have the database file open. When nothing is
behind, the command is refused (exit status 5).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if reason == "" {
				return cli.Usagef("--reason is required")
			}
			if db.IsPostgres(database) && heads == "" {
				return cli.Usagef("--heads is required with a PostgreSQL database")
			}
			if err := refuseOlder(cmd.Context(), database); err != nil {
				return err
			}
			o := admin.AcceptOptions{Heads: headsPath(heads, database), Reason: reason}
			if o.Master, err = master.read(cmd.Context()); err != nil {
				return err
			}
			accepted, err := admin.AcceptRollback(cmd.Context(), database, schema, o)
			if errors.Is(err, store.ErrInUse) {
				return fmt.Errorf("%w; stop the server first", err)
			}
			if err != nil {
				return err
			}
			for _, b := range accepted {
				printable.Fprintf(cmd.OutOrStdout(), "%s\n", rollbackLine(b))
			}
			return nil
		},
	}
	databaseFlag(cmd, &database)
	headsFlag(cmd, &heads)
	master.add(cmd, "", masterKeyUse)
	cmd.Flags().StringVar(&reason, "reason", "", "`text` for the control logs: why the older database is the right one")
	return cmd
}

func headsFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "heads", "",
		"head `file`, preferably on another disk (default: the name of the database file with .heads; none for PostgreSQL)")
}

// headsPath returns the path of the head file of a database.
func headsPath(flag, database string) string {
	if flag == "" && !db.IsPostgres(database) {
		return store.HeadsBeside(database)
	}
	return flag
}

// rollbackLine describes for operators how a log is behind.
func rollbackLine(b store.Behind) string {
	if b.Log == db.Cosigned {
		return "as a witness: log " + b.Origin() + " " + b.Why
	}
	company := b.Company
	if company == "" {
		company = "a missing company"
	}
	return fmt.Sprintf("%s: log %s (%x) %s", company, b.Log, b.Known.LogID, b.Why)
}
