package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"attestd/internal/spelling"

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
	if check == nil {
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err != nil {
			err = countOf(err)
		}
		switch meant := meantCommand(cmd, args); {
		case err == nil:
			return nil
		case meant != "":
			return didYouMean(err, meant)
		case cmd.HasSubCommands() && len(cmd.Commands()) <= fewCommands:
			return fmt.Errorf("%w; it has %s", err, strings.Join(subcommands(cmd), ", "))
		case cmd.HasSubCommands():
			return err
		}
		return fmt.Errorf("%w; the command is: %s", err, cmd.UseLine())
	}
}

// countOf says in plain words that a command has too few arguments or too many.
func countOf(err error) error {
	var wanted, given int
	for _, form := range []string{"accepts %d arg(s), received %d", "requires at least %d arg(s), only received %d"} {
		if n, _ := fmt.Sscanf(err.Error(), form, &wanted, &given); n < 2 {
			continue
		}
		switch missing := wanted - given; {
		case missing == 1:
			return errors.New("an argument is missing")
		case missing > 1:
			return fmt.Errorf("%d arguments are missing", missing)
		}
		return fmt.Errorf("%d arguments are too many: the command takes %d", given, wanted)
	}
	return err
}

// didYouMean adds to an error what was meant, which may be "".
func didYouMean(err error, meant string) error {
	if meant == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean %s?", err, meant)
}

// fewCommands is how many subcommands an error names.
const fewCommands = 8

func subcommands(cmd *cobra.Command) (names []string) {
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	return names
}

// meantCommand returns what a command line with an argument too many may mean, or "": a subcommand
// whose name is misspelt, or a company, which commands take as a flag.
func meantCommand(cmd *cobra.Command, args []string) string {
	if len(args) == 0 {
		return ""
	}
	for _, sub := range cmd.Commands() {
		if slices.Contains(sub.SuggestFor, args[0]) {
			return sub.CommandPath()
		}
	}
	if name := spelling.Nearest(args[0], subcommands(cmd)); name != "" {
		return cmd.CommandPath() + " " + name
	}
	if f := cmd.Flag("company"); f != nil && !f.Changed && len(args) == 1 && !cmd.HasSubCommands() {
		return cmd.CommandPath() + " --company " + args[0]
	}
	return ""
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
