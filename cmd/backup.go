package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/dustin/go-humanize"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
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

// s3Flags say how the service of a bucket is reached.
type s3Flags struct {
	endpoint, region     string
	pathStyle, allowHTTP bool
	caFile               *string
}

func (f *s3Flags) add(cmd *cobra.Command) {
	f.caFile = cli.CaFileFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "backup-s3-endpoint", "", "`URL` of a service with the API of S3 (default: AWS)")
	flags.StringVar(&f.region, "backup-s3-region", "", "`region` of the bucket (default: AWS_REGION, or what the service says)")
	flags.BoolVar(&f.pathStyle, "backup-s3-path-style", false, "put the bucket in the path of requests, and not in the host")
	flags.BoolVar(&f.allowHTTP, "backup-s3-allow-http", false, "reach the service by plain http on other machines too")
}

// options returns the options of a bucket. The credentials are those of the environment or of the
// usual file.
func (f s3Flags) options() (o backups.BucketOptions, err error) {
	o = backups.BucketOptions{Endpoint: f.endpoint, PathStyle: f.pathStyle, AllowHTTP: f.allowHTTP, Lock: backups.LockOff, Now: time.Now, Roots: cli.TrustedRoots(),
		Region: cmp.Or(f.region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))}
	file := &credentials.FileAWSCredentials{}
	for _, provider := range []credentials.Provider{&credentials.EnvAWS{}, file} {
		found, err := provider.RetrieveWithCredContext(nil)
		if err != nil || found.AccessKeyID == "" {
			continue
		}
		if provider == credentials.Provider(file) {
			if err := checkCredentialsFile(file.Filename); err != nil {
				return o, err
			}
		}
		o.AccessKey, o.SecretKey, o.SessionToken = found.AccessKeyID, found.SecretAccessKey, found.SessionToken
		break
	}
	return o, nil
}

// checkCredentialsFile refuses a file of credentials that others may read, change or replace.
func checkCredentialsFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case cli.IsExposed(path, info):
		return cli.Usagef("others may read the credentials in %s; chmod 600 %s", path, printable.ShellWord(path))
	}
	if err := cli.CheckRights(path, info); err != nil {
		return cli.UsageError{Err: err}
	}
	return nil
}

// backupFlags say where backups are put, and how.
type backupFlags struct {
	s3                       s3Flags
	to, identity, temp, rate string
	recipients               []string
	keep                     int
	lock                     string
	lockFor                  time.Duration
}

// addPlace adds the flags that name a place and open what is there.
func (f *backupFlags) addPlace(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.s3.add(cmd)
	flags.StringVar(&f.to, "backup-to", "", "`folder`, or s3://bucket/prefix, in which backups are")
	flags.StringVar(&f.identity, "backup-identity", "", "`file` of secret keys of age, with which encrypted backups are opened and verified")
	flags.StringVar(&f.temp, "backup-temp", "", "`folder` of temporary copies, in plaintext (default: that of the database)")
	flags.StringVar(&f.rate, "backup-rate", "16MiB", "most bytes a second that a backup copies, sends and reads back, a `size`; or off")
}

func (f *backupFlags) add(cmd *cobra.Command) {
	f.addPlace(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.recipients, "backup-recipient", nil, "`age1…`,… public keys of age to which backups are encrypted")
	flags.StringVar(&f.lock, "backup-lock", string(backups.LockAuto),
		"object lock of backups in a bucket, `auto|governance|compliance|off`; auto is governance where the bucket has it")
	flags.DurationVar(&f.lockFor, "backup-lock-for", 7*24*time.Hour, "`time` for which a backup in a bucket is locked")
}

// place opens the place of backups.
func (f backupFlags) place() (backups.Place, error) {
	if f.to == "" {
		return nil, cli.Usagef("--backup-to must name a folder, or s3://bucket/prefix")
	}
	if !strings.Contains(f.to, "://") {
		return backups.OpenFolder(f.to)
	}
	o, err := f.s3.options()
	if err != nil {
		return nil, err
	}
	o.Lock, o.LockFor = backups.LockMode(cmp.Or(f.lock, string(backups.LockOff))), f.lockFor
	switch o.Lock {
	case backups.LockAuto, backups.LockGovernance, backups.LockCompliance, backups.LockOff:
	default:
		return nil, cli.Usagef("--backup-lock must be auto, governance, compliance or off, got %q", f.lock)
	}
	if o.Lock != backups.LockOff && (f.lockFor < time.Hour || f.lockFor > 100*365*24*time.Hour) {
		return nil, cli.Usagef("--backup-lock-for must be an hour to 100 years, got %s", f.lockFor)
	}
	return backups.OpenBucket(f.to, o)
}

// options returns how a backup is made.
func (f backupFlags) options(schema string) (o backups.Options, err error) {
	o = backups.Options{Schema: schema, Temp: f.temp, Keep: f.keep, At: time.Now(), RecipientNames: f.recipients}
	if f.rate != "off" {
		rate, err := humanize.ParseBytes(f.rate)
		if err != nil || rate < 64<<10 || rate > 1<<40 {
			return o, cli.Usagef("--backup-rate must be a size from 64KiB to 1TiB, or off, got %q", f.rate)
		}
		o.Rate = int64(rate)
	}
	if o.Recipients, err = backups.ParseRecipients(f.recipients); err != nil {
		return o, cli.UsageError{Err: fmt.Errorf("--backup-recipient: %w", err)}
	}
	if o.Identities, err = readIdentities("--backup-identity", f.identity); err != nil {
		return o, err
	}
	return o, nil
}

const maxIdentities = 1 << 20 // bytes of a file of secret keys

// readIdentities reads a file of secret keys of age that only its owner may read.
func readIdentities(flag, path string) ([]age.Identity, error) {
	if path == "" {
		return nil, nil
	}
	text, err := cli.ReadSecret(path, maxIdentities, func(fs.FileInfo) error {
		return fmt.Errorf("others may read %s; chmod 600 %s", path, printable.ShellWord(path))
	})
	if err != nil {
		return nil, cli.Usagef("%s: %v", flag, err)
	}
	found, err := backups.ParseIdentities(text)
	if err != nil {
		return nil, cli.Usagef("%s: %s: %v", flag, path, err)
	}
	return found, nil
}

// newest returns when the newest backup of a database in a place was begun.
func newest(ctx context.Context, s *store.Store, p backups.Place) (time.Time, error) {
	id, err := s.DatabaseID(ctx)
	if err != nil {
		return time.Time{}, err
	}
	found, err := backups.Newest(ctx, p, id)
	return found.Manifest.Began, err
}

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
