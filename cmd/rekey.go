package cmd

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
)

func rekeyCommand(schema string) *cobra.Command {
	var db string
	var old, next masterKeyFlags
	var off bool
	cmd := &cobra.Command{
		Use:   "rekey",
		Short: "Seal the keys in the database with a master key, change that, or undo it",
		Long: `Seal the private keys and API keys in the database with a master key:

  attestd rekey --new-master-key-file FILE                            seals what is in clear
  attestd rekey --master-key-file OLD --new-master-key-file NEW       changes the master key
  attestd rekey --master-key-file OLD --off                           puts the keys back in clear

Works on a database that no server has open, and needs room on the disk for a copy of it. When it was interrupted, run it again. Older
backups stay as they are.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := fileOnly("rekey", "stop the servers, move the PostgreSQL database into a file (attestd move), rekey that, and move it into an empty database", db); err != nil {
				return err
			}
			o := admin.RekeyOptions{}
			var err error
			if o.Old, err = old.read(cmd.Context()); err != nil {
				return err
			}
			if o.New, err = next.read(cmd.Context()); err != nil {
				return err
			}
			if off == (o.New != nil) {
				return usagef("rekey needs either --new-master-key-file, --new-master-key-command or --off")
			}
			if err := refuseOlder(cmd.Context(), db); err != nil {
				return err
			}
			report, finish := progress()
			o.Progress = report
			err = admin.Rekey(cmd.Context(), db, schema, o)
			finish()
			switch {
			case errors.Is(err, store.ErrInUse):
				return fmt.Errorf("%w; stop the server first", err)
			case err != nil:
				return err
			case off:
				printable.Fprintf(cmd.ErrOrStderr(), "the keys in %s are in clear\n", db)
			default:
				printable.Fprintf(cmd.ErrOrStderr(), "the keys in %s are sealed with master key %s\n", db, o.New.ID())
			}
			return nil
		},
	}
	databaseFlag(cmd, &db)
	old.add(cmd, "", "the master key that the keys are sealed with")
	next.add(cmd, "new-", "the master key to seal them with")
	cmd.Flags().BoolVar(&off, "off", false, "put the keys back in clear")
	return cmd
}
