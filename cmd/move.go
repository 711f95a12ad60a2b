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

func moveCommand(schema string) *cobra.Command {
	var heads string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "move FROM TO",
		Short: "Move a database between a file and PostgreSQL",
		Long: `Copy a database between a file and PostgreSQL, and prove that the copy is identical. FROM and
TO are each a file, or the URL of a PostgreSQL database:

  attestd move attestd.db postgres://owner@host/attestd
  attestd move postgres://owner@host/attestd attestd.db

No server may use FROM (exit status 6); the command locks it against writes. For PostgreSQL,
the role must own the tables. TO must be empty: a file that does not exist, or a database
without tables, which the command creates.

The command verifies every chain of FROM first, and refuses a chain that does not verify (exit
status 4). Then it verifies every chain of the copy, and compares every row of every table.
That includes log lengths and roots, companies and their keys (sealed if FROM seals them),
credentials, agents, passports, webhooks, checkpoints and settings. Only then does TO appear: a
move that fails or is killed leaves nothing there. The command prints a digest over all rows,
which does not depend on the engine.

FROM is not changed. Serve TO from then on, with the same --heads FILE if there is one, and
never serve both: their histories would diverge, signed with the same keys. Keep FROM until TO
has a backup, then destroy it as you would destroy its keys.

The list of processes shows a password on the command line: use a passfile (~/.pgpass) or
PGPASSWORD.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := args[0], args[1]
			for i, what := range []string{"FROM", "TO"} {
				if err := checkDatabase(what, args[i]); err != nil {
					return err
				}
			}
			if !db.IsPostgres(from) && !db.IsPostgres(to) {
				return cli.Usagef("FROM and TO are both files: attestd backup copies a file")
			}
			report, finish := cli.Progress()
			moved, err := admin.Move(cmd.Context(), from, to, schema,
				admin.MoveOptions{Heads: headsPath(heads, from), Progress: report})
			finish()
			if errors.Is(err, store.ErrInUse) {
				return fmt.Errorf("%w; stop the servers first", err)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return printable.JSON(cmd.OutOrStdout(), movedJSON(from, to, moved))
			}
			printable.Fprintf(cmd.ErrOrStderr(), "moved %s to %s: %s, %s, %s in total; verified every chain on both sides and compared every row\n",
				db.Name(from), db.Name(to), printable.Count(moved.Companies, "company"), printable.Count(moved.Records, "record"), printable.Count(moved.Rows, "row"))
			printable.Fprintf(cmd.ErrOrStderr(), "serve %s from now on, never both\n", db.Name(to))
			printable.Fprintf(cmd.OutOrStdout(), "%v\n", moved.Digest)
			return nil
		},
	}
	cmd.Flags().StringVar(&heads, "heads", "",
		"head `file` of FROM; refuse a FROM that is behind it (default: the name of the database file with .heads)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as one JSON object")
	return cmd
}

// movedJSON returns the result of a move for scripts. The tables are in the order in which the
// digest covers them.
func movedJSON(from, to string, m admin.Moved) map[string]any {
	tables := []map[string]any{}
	for _, t := range m.Tables {
		tables = append(tables, map[string]any{"name": t.Name, "rows": t.Rows, "digest": t.Digest})
	}
	return map[string]any{"from": db.Name(from), "to": db.Name(to), "companies": m.Companies, "records": m.Records,
		"rows": m.Rows, "digest": m.Digest, "tables": tables}
}
