package cmd

import (
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/server"
)

// readyFlags say when the server is ready for a load balancer.
type readyFlags struct {
	diskFloor  string
	drainDelay time.Duration
}

func (f *readyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.diskFloor, "disk-floor", "1MiB",
		"free `size` on the disk of the database below which the server is not ready; 0 for none")
	cmd.Flags().DurationVar(&f.drainDelay, "drain-delay", 0,
		"how long the server is not ready and goes on serving after it was asked to stop")
}

func (f readyFlags) config(cfg *server.Config) error {
	floor, err := humanize.ParseBytes(f.diskFloor)
	if err != nil || floor > 1<<50 {
		return cli.Usagef("--disk-floor must be a size such as 1GiB, got %q", f.diskFloor)
	}
	if f.drainDelay < 0 || f.drainDelay > time.Hour {
		return cli.Usagef("--drain-delay must be from 0s to 1h, got %s", f.drainDelay)
	}
	cfg.DiskFloor, cfg.DrainDelay = int64(floor), f.drainDelay
	return nil
}
