package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func rekeyCommand(schema string) *cobra.Command {
	var db, heads string
	var old, next masterKeyFlags
	var off bool
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal the keys in the database with a master key, change it, or unseal the keys",
		Long: `Seal the private keys and API keys in the database with a master key:

  attestd rekey --new-master-key-file FILE                            seals keys in plaintext
  attestd rekey --master-key-file OLD --new-master-key-file NEW       changes the master key
  attestd rekey --master-key-file OLD --off                           stores the keys in plaintext

No server may have the database open. The command needs disk space for a copy of it. If the
command was interrupted, run it again. Older backups are not changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fileOnly("rekey", "stop the servers, move the PostgreSQL database into a file (attestd move), rekey that, and move it into an empty database", db); err != nil {
				return err
			}
			o := admin.RekeyOptions{Heads: headsPath(heads, db)}
			var err error
			if o.Old, err = old.read(cmd.Context()); err != nil {
				return err
			}
			if o.New, err = next.read(cmd.Context()); err != nil {
				return err
			}
			if off == (o.New != nil) {
				return cli.Usagef("rekey requires exactly one of --new-master-key-file, --new-master-key-command and --off")
			}
			if err := refuseOlder(cmd.Context(), db); err != nil {
				return err
			}
			report, finish := cli.Progress()
			o.Progress = report
			err = admin.Rekey(cmd.Context(), db, schema, o)
			finish()
			switch {
			case errors.Is(err, store.ErrInUse):
				return fmt.Errorf("%w; stop the server first", err)
			case err != nil:
				return err
			case off:
				printable.Fprintf(cmd.ErrOrStderr(), "the keys in %s are in plaintext\n", db)
			default:
				printable.Fprintf(cmd.ErrOrStderr(), "the keys in %s are sealed with master key %s\n", db, o.New.ID())
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	headsFlag(cmd, &heads)
	old.add(cmd, "", "the current master key")
	next.add(cmd, "new-", "the new master key")
	cmd.Flags().BoolVar(&off, "off", false, "store the keys in plaintext")
	return cmd
}
