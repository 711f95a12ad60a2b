package cmd

import (
	"context"
	"io"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store/admin"
	"attestd/store/admin/backups"
)

// insteadOfBackup says how a PostgreSQL database is backed up.
const insteadOfBackup = "back up a PostgreSQL database with its own tools (pg_basebackup, pgBackRest, snapshots), and see docs/postgres.md for the checks; attestd move copies one into a file"

func backupCommand(version, schema string) *cobra.Command {
	var db, heads string
	var flags backupFlags
	var supervised, asJSON bool
	cmd := &cobra.Command{
		Use:   "backup OUT",
		Short: "Copy the database into a file or a place of backups, while a server runs or not",
		Long: `Copy the database into a new file that only its owner can read. Every chain of the copy is verified
before the file gets its name. An existing file is never overwritten.

With --backup-to in place of OUT, add a backup to a folder or a bucket, as attestd serve
--backup-every does: encrypted to --backup-recipient, read back from there, and verified. Its
manifest is written last. With --backup-keep, older backups of the same database then go.

The backup contains every private key, sealed if the database seals them. Protect it as you
protect the database.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("backup", insteadOfBackup, append([]string{db}, args...)...); err != nil {
				return err
			}
			if len(args) == 0 && flags.to == "" {
				return cli.Usagef("name the file to write, or a place of backups with --backup-to")
			}
			if len(args) == 1 && flags.to != "" {
				return cli.Usagef("give either OUT or --backup-to, and not both")
			}
			if len(args) == 1 && len(flags.recipients) > 0 {
				return cli.Usagef("--backup-recipient requires --backup-to; OUT is never encrypted")
			}
			if flags.to != "" {
				return flags.makeOne(cmd, db, heads, version, schema, supervised, asJSON)
			}
			report, finish := cli.Progress()
			err := admin.Backup(cmd.Context(), db, args[0], schema, report)
			finish()
			if err == nil {
				printable.Fprintf(cmd.ErrOrStderr(), "backed up %s to %s and verified the copy\n", db, args[0])
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	flags.add(cmd)
	cmd.Flags().IntVar(&flags.keep, "backup-keep", 0, "`number` of newest backups to keep in --backup-to; 0 keeps all")
	cmd.Flags().StringVar(&heads, "heads", "", "head `file` to compare the database with before a backup in --backup-to")
	cmd.Flag("heads").Annotations = map[string][]string{cli.TypedOnly: {"yes"}}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the manifest of a backup in --backup-to as JSON")
	cmd.Flags().BoolVar(&supervised, "supervised", false, "end when standard input ends")
	_ = cmd.Flags().MarkHidden("supervised") // it cannot fail for a flag that exists
	cmd.AddCommand(backupListCommand(), backupVerifyCommand(schema))
	return cmd
}

// Nice values of a backup. While it copies, it holds up the write-ahead log, so it is only polite;
// what follows may take its time.
const (
	politePriority = 10
	idlePriority   = 19
)

// makeOne makes one backup in --backup-to.
func (f backupFlags) makeOne(cmd *cobra.Command, db, heads, version, schema string, supervised, asJSON bool) error {
	ctx := cmd.Context()
	if supervised {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if f.keep < 0 {
		return cli.Usagef("--backup-keep must be at least 0, got %d", f.keep)
	}
	place, err := f.place()
	if err != nil {
		return err
	}
	o, err := f.options(schema)
	if err != nil {
		return err
	}
	o.Program, o.Heads = "attestd/"+version, heads
	lowerPriority(politePriority)
	o.Copied = func() { lowerPriority(idlePriority) }
	report, finish := cli.Progress()
	o.Progress = report
	made, err := backups.Make(ctx, db, place, o)
	finish()
	if err != nil {
		return err
	}
	if asJSON {
		return printable.JSON(cmd.OutOrStdout(), made)
	}
	printable.Fprintf(cmd.ErrOrStderr(), "backed up %s to %s (%s) and %s\n", db, made.Address,
		humanize.IBytes(uint64(made.Size)), provenBy(made.Manifest))
	for _, name := range made.Removed {
		printable.Fprintf(cmd.ErrOrStderr(), "removed %s\n", name)
	}
	for _, why := range made.Left {
		printable.Fprintf(cmd.ErrOrStderr(), "warning: an old backup was not removed: %s\n", why)
	}
	return nil
}

// provenBy says how a backup was verified.
func provenBy(m backups.Manifest) string {
	if m.WasOpened() {
		return "verified what was read back"
	}
	return "compared what was read back; attestd backup verify --backup-identity opens it too"
}
