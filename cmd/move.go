package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func moveCommand(schema string) *cobra.Command {
	var heads string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "move FROM TO",
		Short: "Move a database between a file and PostgreSQL",
		Long: `Copy a database to another place, and prove that it is the same there. FROM and TO are each a file, or the URL of a PostgreSQL database:

  attestd move attestd.db postgres://owner@host/attestd
  attestd move postgres://owner@host/attestd attestd.db

No server may run on FROM (exit status 6), and nothing can write it meanwhile; of a PostgreSQL database, the role must own the tables. Every chain of it is verified first, and one that
does not verify is refused (exit status 4). TO must be empty: a file that is not there, or a database without tables, which it makes. Then every chain is verified there,
and every row of every table compared with that of FROM: the lengths and roots of all logs, companies and their keys, as they are sealed, credentials, agents, passports, webhooks, checkpoints and
settings. Only then does anything stand at TO: a move that fails, is interrupted or killed leaves nothing there. It prints a digest over all rows, the same for the same rows in either engine.

FROM stays as it was. Serve TO from then on, with the same --heads FILE if there is one, and never serve both: two that go on from one state
are two histories, signed with one key. Keep FROM until TO has a backup, then destroy it as you would destroy its keys.

A password on the command line is seen in the list of processes: use a passfile (~/.pgpass) or PGPASSWORD.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			from, to := args[0], args[1]
			for i, what := range []string{"FROM", "TO"} {
				if err := checkDatabase(what, args[i]); err != nil {
					return err
				}
			}
			if !store.IsPostgres(from) && !store.IsPostgres(to) {
				return usagef("both are files: attestd backup copies one")
			}
			report, finish := progress()
			moved, err := admin.Move(cmd.Context(), from, to, schema, admin.MoveOptions{Heads: headsPath(heads, from), Progress: report})
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
			printable.Fprintf(cmd.ErrOrStderr(), "moved %s to %s: %d companies, %d records, %d rows in all; every chain verified on both sides and every row compared\n",
				store.Name(from), store.Name(to), moved.Companies, moved.Records, moved.Rows)
			printable.Fprintf(cmd.ErrOrStderr(), "serve %s from now on, and never both\n", store.Name(to))
			printable.Fprintf(cmd.OutOrStdout(), "%v\n", moved.Digest)
			return nil
		},
	}
	cmd.Flags().StringVar(&heads, "heads", "", "head `file` of FROM, behind which it must not be (default: beside a database file, its name with .heads)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was moved as one JSON object")
	return cmd
}

// movedJSON is what a move prints for scripts: the tables in the order in which they make up the
// digest.
func movedJSON(from, to string, m admin.Moved) map[string]any {
	tables := []map[string]any{}
	for _, t := range m.Tables {
		tables = append(tables, map[string]any{"name": t.Name, "rows": t.Rows, "digest": t.Digest})
	}
	return map[string]any{"from": store.Name(from), "to": store.Name(to), "companies": m.Companies, "records": m.Records, "rows": m.Rows, "digest": m.Digest, "tables": tables}
}
