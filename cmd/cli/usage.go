package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// explainArguments makes errors about the number of arguments say what a command takes. Those of
// commands with subcommands name the subcommand that was misspelt.
func explainArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		explainArguments(sub)
	}
	check := c.Args
	if check == nil || c.HasSubCommands() {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err != nil {
			err = fmt.Errorf("%w; the command is: %s", err, cmd.UseLine())
		}
		return err
	}
}

// explainValue says of a flag's value that cannot be read what is wanted.
func explainValue(err error) error {
	invalid := (*pflag.InvalidValueError)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	want, known := map[string]string{"int": "a whole number", "int64": "a whole number", "duration": "a time such as 30s or 6h",
		"bool": "true or false"}[invalid.GetFlag().Value.Type()]
	if !known {
		return err
	}
	return fmt.Errorf("invalid argument %q for \"--%s\" flag: it must be %s", invalid.GetValue(), invalid.GetFlag().Name, want)
}
