package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/dustin/go-humanize"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/store"
	"attestd/store/admin/backups"
)

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
