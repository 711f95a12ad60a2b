package cmd

import (
	"github.com/spf13/cobra"
)

// helpCommand is cobra's, but that a command which is not there is a mistake.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usageError{err}
			}
			if len(rest) > 0 {
				return usagef("unknown command %q for %q", rest[0], found.CommandPath())
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}
