package cmd

import (
	"strings"

	"github.com/spf13/pflag"

	"attestd/cmd/cli"
)

// checkBelongs refuses a flag with a prefix that has another value than its default while the one
// to which it belongs is not set: nothing would be done, and nothing would say so.
func checkBelongs(flags *pflag.FlagSet, prefix, to string) (err error) {
	if flags.Lookup(to).Value.String() != "" {
		return nil
	}
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != to && strings.HasPrefix(f.Name, prefix) && f.Value.String() != f.DefValue {
			err = cli.Usagef("--%s does nothing without --%s", f.Name, to)
		}
	})
	return err
}
