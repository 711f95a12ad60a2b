package cmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin/backups"
)

func backupListCommand() *cobra.Command {
	var flags backupFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups in a folder or a bucket",
		Long: `List the backups in a folder or a bucket, the oldest first: address, time of its beginning, size, and
state. A backup that is done was read back and verified when it was made. attestd restore takes
the address.

Exit status 4 when a backup does not fit its manifest.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place, err := flags.place()
			if err != nil {
				return err
			}
			list, err := backups.List(cmd.Context(), place)
			if err != nil {
				return err
			}
			for _, l := range list {
				state := "unfinished"
				switch {
				case l.Err != nil:
					state = "wrong: " + l.Err.Error()
					err = cli.ExitError{Status: cli.ExitInvalid, Err: errors.New("a backup is not what its manifest says")}
				case l.Done():
					state = "done"
				}
				if asJSON {
					_ = printable.JSON(cmd.OutOrStdout(), map[string]any{"address": l.Address, "state": state, "manifest": l.Manifest})
					continue
				}
				printable.Fprintf(cmd.OutOrStdout(), "%s  %s  %s, %s, %s\n", l.Address, l.Time.Format("2006-01-02T15:04:05Z"),
					humanize.IBytes(uint64(l.Manifest.Size)), printable.Count(l.Manifest.Records, "record"), state)
			}
			return err
		},
	}
	flags.addPlace(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func backupVerifyCommand(schema string) *cobra.Command {
	var flags backupFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "verify [NAME]…",
		Short: "Read backups from their place, restore them to a temporary file and verify them",
		Long: `Read backups from a folder or a bucket, compare them with their manifests, restore each to a temporary
file, and verify every chain, table and head of it. Without a name, this is the newest backup that
is done; --all takes each.

An encrypted backup is opened with --backup-identity. Without it, only its digest is compared.
Exit status 4 when a chain does not verify, and 8 when something else is wrong.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && !cmd.Flag("backup-to").Changed {
				if _, err := os.Stat(args[0]); err == nil {
					return cli.Usagef("NAME is that of a backup in --backup-to; a backup that is a file of its own is verified by: attestd verify --db %s", printable.ShellWord(args[0]))
				}
			}
			place, err := flags.place()
			if err != nil {
				return err
			}
			o, err := flags.options(schema)
			if err != nil {
				return err
			}
			chosen, err := choose(cmd.Context(), place, args, all)
			if err != nil {
				return err
			}
			temp, remove, err := backups.VerifyFolder(flags.temp)
			if err != nil {
				return err
			}
			defer remove()
			report, finish := cli.Progress()
			defer finish()
			o.Progress = report
			for _, l := range chosen {
				failed := backups.Verify(cmd.Context(), place, l, temp, o)
				finish()
				switch {
				case failed != nil:
					printable.Fprintf(cmd.OutOrStdout(), "%s: FAILS: %s\n", l.Address, failed)
					err = errors.Join(err, failed)
				case l.Encrypted && len(o.Identities) == 0:
					printable.Fprintf(cmd.OutOrStdout(), "%s: has its digest; --backup-identity would verify the database in it\n", l.Address)
				default:
					printable.Fprintf(cmd.OutOrStdout(), "%s: valid, %s, head %s\n", l.Address,
						printable.Count(l.Manifest.Records, "record"), l.Manifest.Head)
				}
			}
			return err
		},
	}
	flags.addPlace(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "verify every backup that is done")
	return cmd
}

// choose returns the backups with these names, all, or the newest one.
func choose(ctx context.Context, place backups.Place, names []string, all bool) (chosen []backups.Listed, err error) {
	list, err := backups.List(ctx, place)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		found := false
		for _, l := range list {
			if l.Name.String() == filepath.Base(name) {
				chosen, found = append(chosen, l), true
			}
		}
		if !found {
			return nil, errors.Join(store.ErrNotFound, cli.Usagef("there is no backup %s in %s", name, place))
		}
	}
	if len(names) > 0 {
		return chosen, nil
	}
	for _, l := range list {
		if l.Done() || all && l.Err != nil {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.Join(store.ErrNotFound, errors.New("there is no backup that is done in "+place.String()))
	}
	if !all {
		chosen = chosen[len(chosen)-1:]
	}
	return chosen, nil
}
