package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/store"
	"attestd/store/admin/backups"
)

// serveBackupFlags are the flags of backups that a server makes.
type serveBackupFlags struct {
	backupFlags
	every time.Duration
}

const (
	leastBackupInterval = time.Minute
	// time for a backup to remove what it has written, when the server stops
	backupGrace = 5 * time.Second
	// a backup that takes longer is ended
	longestBackup   = 7 * 24 * time.Hour
	maxBackupOutput = 1 << 20
)

func (f *serveBackupFlags) add(cmd *cobra.Command) {
	f.backupFlags.add(cmd)
	cmd.Flags().DurationVar(&f.every, "backup-every", 6*time.Hour, "`time` between backups in --backup-to")
	cmd.Flags().IntVar(&f.keep, "backup-keep", 28, "`number` of newest backups to keep in --backup-to; 0 keeps all")
}

// check checks the flags before the database is opened, and returns the place of backups, nil for
// none.
func (f serveBackupFlags) check(db string) (backups.Place, error) {
	if f.to == "" {
		return nil, nil
	}
	if err := fileOnly("serve --backup-to", insteadOfBackup, db); err != nil {
		return nil, err
	}
	if f.every < leastBackupInterval || f.keep < 0 {
		return nil, cli.Usagef("--backup-every must be at least %s, and --backup-keep at least 0", leastBackupInterval)
	}
	if _, err := f.options(""); err != nil {
		return nil, err
	}
	return f.place()
}

// schedule returns what makes backups in the place, or nil if there is none. Each is made by a
// process of its own with a low priority, which costs the server no memory, no time of its garbage
// collector, and no more than that process if it fails.
func (f serveBackupFlags) schedule(place backups.Place, s *store.Store, db, heads string, log *slog.Logger) *backups.Schedule {
	if place == nil {
		return nil
	}
	if len(f.recipients) == 0 {
		log.Warn("backups are not encrypted; --backup-recipient encrypts them", "to", place.String())
	}
	if len(f.recipients) > 0 && f.identity == "" {
		log.Info("backups are verified before they are encrypted, and compared when they are read back; --backup-identity opens them too",
			"to", place.String())
	}
	return &backups.Schedule{To: place.String(), Every: f.every, Log: log,
		Make: func(ctx context.Context) (backups.Made, error) {
			if rollbacks := s.Rollback.Behind(); len(rollbacks) > 0 {
				return backups.Made{}, fmt.Errorf("%w: no backup is made and none is removed before that is accepted", store.ErrRolledBack)
			}
			return f.run(ctx, db, heads)
		},
		Newest: func(ctx context.Context) (time.Time, error) { return newest(ctx, s, place) },
	}
}

// run makes a backup in a process of its own, which ends with this one.
func (f serveBackupFlags) run(ctx context.Context, db, heads string) (made backups.Made, err error) {
	program, err := runningProgram()
	if err != nil {
		return made, err
	}
	ctx, cancel := context.WithTimeout(ctx, longestBackup)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, f.arguments(db, heads)...)
	cmd.Args[0] = os.Args[0]
	// its standard input ends when this process does, however that ends
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return made, err
	}
	cmd.Cancel = stdin.Close
	cmd.WaitDelay = backupGrace
	stdout, stderr := &bounded{most: maxBackupOutput}, &bounded{most: 16 << 10}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return made, ctx.Err()
		}
		if output := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "attestd: "); output != "" {
			err = fmt.Errorf("%s (%w)", strings.ReplaceAll(output, "\n", "; "), err)
		}
		return made, err
	}
	if err := json.Unmarshal(stdout.Bytes(), &made); err != nil {
		return made, fmt.Errorf("the output of the backup: %w", err)
	}
	return made, nil
}

// runningProgram returns the path of this program, also if a newer one has taken its place.
func runningProgram() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Lstat(self); err == nil && runtime.GOOS == "linux" {
		return self, nil
	}
	return os.Executable()
}

// arguments are those of attestd backup. No secret is among them.
func (f serveBackupFlags) arguments(db, heads string) []string {
	list := []string{"backup", "--supervised", "--json", "--db", db, "--backup-to", f.to,
		"--backup-keep", strconv.Itoa(f.keep), "--backup-rate", f.rate, "--backup-lock", f.lock, "--backup-lock-for", f.lockFor.String(),
		"--backup-s3-path-style=" + strconv.FormatBool(f.s3.pathStyle), "--backup-s3-allow-http=" + strconv.FormatBool(f.s3.allowHTTP)}
	for flag, value := range map[string]string{"--heads": heads, "--backup-identity": f.identity, "--backup-temp": f.temp,
		"--backup-s3-endpoint": f.s3.endpoint, "--backup-s3-region": f.s3.region, "--ca-file": *f.s3.caFile, "--backup-recipient": strings.Join(f.recipients, ",")} {
		if value != "" {
			list = append(list, flag, value)
		}
	}
	return list
}

// bounded keeps the last bytes that are written to it.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	n, err := b.Buffer.Write(p)
	if over := b.Len() - b.most; over > 0 {
		b.Next(over)
	}
	return n, err
}
