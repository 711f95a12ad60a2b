package cmd

import (
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
)

// leastVerifyEvery is the smallest interval of the background verification.
const leastVerifyEvery = time.Minute

// verifyFlags are the flags of the background verification.
type verifyFlags struct{ every string }

func (f *verifyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.every, "verify-every", "24h",
		"`interval` at which every log and table is verified in the background, from 1m on; or off")
}

// config returns the interval, or 0 for off.
func (f verifyFlags) config() (time.Duration, error) {
	if f.every == "off" {
		return 0, nil
	}
	every, err := time.ParseDuration(f.every)
	if err != nil || every < leastVerifyEvery {
		return 0, cli.Usagef("--verify-every must be off or a time from 1m on, such as 24h, got %q", f.every)
	}
	return every, nil
}
