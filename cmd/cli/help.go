package cli

import (
	"github.com/spf13/cobra"
)

// helpCommand replaces cobra's own, which exits with 0 when the command does not exist.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return UsageError{Err: err}
			}
			if len(rest) > 0 {
				return Usagef("unknown command %q for %q", rest[0], found.CommandPath())
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
