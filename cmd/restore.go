package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin"
	"attestd/store/admin/backups"
)

func restoreCommand(schema string) *cobra.Command {
	var db, identity string
	var s3 s3Flags
	var force, acceptRollback bool
	cmd := &cobra.Command{
		Use:   "restore IN",
		Short: "Replace the database with a backup",
		Long: `Verify a backup completely and put it in place of the database. An existing database is replaced
only with --force, and never while it is in use.

IN is a file, or s3://bucket/prefix/NAME with ?versionId=ID for an older version. A backup that
is encrypted needs --identity.

With --force alone, the command refuses a restore that would lose something (exit status 5) and
lists the losses: records, companies, keys, clients, agents and passports that the backup
lacks, cosignatures that a witness would forget, revocations and deletions that would be
undone, and chains with another history. It also refuses if it cannot read the existing
database. With --force --accept-rollback it restores and prints the same list.

The head file is not changed. If it is ahead of the backup, the next start is read-only until
attestd accept-rollback.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no backup is named; attestd backup list --backup-to FOLDER lists those of a place")
			}
			return cobra.ExactArgs(1)(nil, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fileOnly("restore", "restore a PostgreSQL database with its own tools, and see docs/postgres.md for the checks; attestd move copies a file into an empty one", db, args[0]); err != nil {
				return err
			}
			if acceptRollback && !force {
				return cli.Usagef("--accept-rollback requires --force")
			}
			if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
				return cli.ExitError{Status: cli.ExitDatabase, Err: fmt.Errorf("%s is empty, and so no backup", args[0])}
			}
			report, finish := cli.Progress()
			undone, err := restore(cmd.Context(), args[0], db, schema, identity, s3,
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
					printable.Fprintf(cmd.ErrOrStderr(),
						"if the head file is ahead of the backup, the next start is read-only until attestd accept-rollback --reason TEXT\n")
				}
			}
			return err
		},
	}
	databaseFlag(cmd, &db)
	cmd.Flags().StringVar(&identity, "identity", "", "`file` of secret keys of age, with which an encrypted backup is opened")
	s3.add(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace an existing database, if nothing is lost")
	cmd.Flags().BoolVar(&acceptRollback, "accept-rollback", false,
		"with --force: replace it although something is lost or undone")
	return cmd
}

// restore puts the backup at in, a file or an object of a bucket, in place of the database.
func restore(ctx context.Context, in, db, schema, identity string, s3 s3Flags, o admin.RestoreOptions) (undone admin.Rollback, err error) {
	identities, err := readIdentities("--identity", identity)
	if err != nil {
		return undone, err
	}
	if !strings.HasPrefix(in, "s3://") {
		file, err := os.Open(in)
		if err != nil {
			return admin.Restore(ctx, in, db, schema, o) // which says what is wrong with it
		}
		defer file.Close()
		if start := make([]byte, 64); !isEncrypted(file, start) {
			return admin.Restore(ctx, in, db, schema, o)
		}
		return backups.Restore(ctx, file, db, schema, identities, o)
	}
	options, err := s3.options()
	if err != nil {
		return undone, err
	}
	address, version, _ := strings.Cut(in, "?versionId=")
	bucket, key, err := backups.ParseBucket(address)
	if err != nil {
		return undone, err
	}
	prefix, name := path.Split(key)
	place, err := backups.OpenBucket("s3://"+bucket+"/"+prefix, options)
	if err != nil {
		return undone, err
	}
	r, err := place.Read(ctx, name, version)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", store.ErrNotFound, err)
	}
	if err != nil {
		return undone, err
	}
	defer r.Close()
	return backups.Restore(ctx, r, db, schema, identities, o)
}

// isEncrypted reports whether a plain file is encrypted, and goes back to its start.
func isEncrypted(file *os.File, start []byte) bool {
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return false
	}
	n, _ := file.ReadAt(start, 0)
	return backups.IsEncrypted(start[:n])
}
