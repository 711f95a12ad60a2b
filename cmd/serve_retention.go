package cmd

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attestd/cmd/cli"
	"attestd/store"
)

// retentionFlags say how long rows stay in the database after what they are for has ended.
type retentionFlags struct{ passports, tokens, sessions, retryKeys string }

func (f *retentionFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.passports, "keep-passports", "30d",
		"`time` for which passports stay in the database after their end, from 2d on; or forever")
	flags.StringVar(&f.tokens, "keep-tokens", "7d",
		"`time` for which access tokens, and notes of revoked ones, stay in the database after their end, from 1d on; or forever")
	flags.StringVar(&f.sessions, "keep-sessions", "forever",
		"`time` for which sessions without statements are listed after their last record, from 30d on; or forever")
	flags.StringVar(&f.retryKeys, "keep-retry-keys", "30d",
		"`time` for which an Idempotency-Key counts, from 30d on; or forever")
}

func (f *retentionFlags) config() (keep store.Retention, err error) {
	for _, t := range []struct {
		flag, text string
		least      time.Duration
		to         *time.Duration
	}{
		{"--keep-passports", f.passports, store.LeastPassports, &keep.Passports},
		{"--keep-tokens", f.tokens, store.LeastTokens, &keep.Tokens},
		{"--keep-sessions", f.sessions, store.LeastSessions, &keep.Sessions},
		{"--keep-retry-keys", f.retryKeys, store.KeyLifetime, &keep.RetryKeys},
	} {
		var ok bool
		if *t.to, ok = parseKeep(t.text); !ok || *t.to < t.least {
			return keep, cli.Usagef("%s must be forever or a time from %dd on, such as 400d, got %q", t.flag, t.least/day, t.text)
		}
	}
	return keep, nil
}

const (
	day = 24 * time.Hour
	// longestKeep is the longest time that is not forever: 100 years.
	longestKeep = 36500 * day
)

// parseKeep parses a number of days, a time, or forever.
func parseKeep(text string) (keep time.Duration, ok bool) {
	if text == "forever" {
		return store.Forever, true
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		keep = time.Duration(n) * day
		return keep, err == nil && keep <= longestKeep
	}
	keep, err := time.ParseDuration(text)
	return keep, err == nil && keep <= longestKeep
}
