package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/internal/printable"
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
				err := fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
				return UsageError{Err: didYouMean(err, meantCommand(found, rest))}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// groups are the groups of commands in the help of a program, by what a reader has come for.
var groups = []struct{ title, commands string }{
	{"Start", "serve demo init open"},
	{"Agents", "agent-key approve attest hook mcp mcp-server policy run spool token"},
	{"Check", "check records report tail trust verifier verify"},
	{"Operate", "accept-rollback accept-tables archive backup company company-log config doctor export health migrate move restore"},
	{"Keys", "master-key person recover-key rekey rotate-key"},
	{"Program", "completion version"},
}

// GroupOf returns the title of the group of a command, by the command's name.
func GroupOf(name string) string {
	for _, g := range groups {
		if slices.Contains(strings.Fields(g.commands), name) {
			return g.title
		}
	}
	return ""
}

// helpWidth is the width of a help's lines.
const helpWidth = 100

// Explain makes commands explain themselves: the program with its commands in groups and the
// exit statuses, and each command with examples, by its path without the program's name.
func Explain(root *cobra.Command, statuses string, examples map[string]string) {
	for _, c := range AllCommands(root) {
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), root.Name()), " ")
		for line := range strings.SplitSeq(examples[path], "\n") {
			if line = strings.TrimSpace(line); line != "" {
				c.Example += "  " + root.Name() + " " + line + "\n"
			}
		}
		c.Example = strings.TrimSuffix(c.Example, "\n")
	}
	explain := root.HelpFunc()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if c == root {
			printGroups(c.OutOrStdout(), root, statuses)
			return
		}
		if c.Flag(allFlag) != nil {
			printSettings(c)
			return
		}
		explain(c, args)
	})
}

// printGroups prints the help of a program.
func printGroups(out io.Writer, root *cobra.Command, statuses string) {
	var text strings.Builder
	printLines(&text, root.Long)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	printLines(&text, "\n")
	for _, g := range groups {
		title := g.title
		for _, name := range strings.Fields(g.commands) {
			if i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name }); i >= 0 {
				if title != "" {
					printLines(&text, title)
					title = ""
				}
				printable.Fprintf(&text, "  %-16s %s\n", name, root.Commands()[i].Short)
			}
		}
	}
	printLines(&text, statuses)
	printLines(out, text.String())
}

func printLines(out io.Writer, text string) {
	for line := range strings.Lines(text) {
		printable.Fprintf(out, "%s\n", strings.TrimSuffix(line, "\n"))
	}
}

// printSettings prints the help of a command with many settings: those that people use, or all.
func printSettings(c *cobra.Command) {
	hidden, width := hideRare(c), helpWidth
	if hidden == 0 {
		width = 0 // a line each, in which one can search
	}
	text := fmt.Sprintf("%s\n\nUsage:\n  %s\n\nExamples:\n%s\n\nSettings:\n%s", c.Short, c.UseLine(), c.Example, c.Flags().FlagUsagesWrapped(width))
	if hidden > 0 {
		text += fmt.Sprintf("\n%d more settings: %s --%s. Variables set them too: ATTESTD_BASE_URL is --base-url.\n", hidden, c.CommandPath(), allFlag)
	}
	printLines(c.OutOrStdout(), text)
}

// often annotates the settings that people use, in a command that has many others.
const often = "often"

// allFlag is the flag that shows the other settings too.
const allFlag = "help-all"

// Often marks the settings of a command that its help shows. The others are shown by --help-all.
func Often(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		_ = cmd.Flags().SetAnnotation(name, often, []string{"true"}) // a test looks for each
	}
	cmd.Flags().Bool(allFlag, false, "help with all settings")
	_ = cmd.Flags().SetAnnotation(allFlag, TypedOnly, []string{"true"}) // the flag is there
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asksForAll(cmd) {
			return cmd.Help()
		}
		return run(cmd, args)
	}
}

// asksForAll reports whether the help with all settings is asked for.
func asksForAll(cmd *cobra.Command) bool {
	f := cmd.Flag(allFlag)
	return f != nil && f.Changed
}

// hideRare hides the settings that few people use, and returns how many those are.
func hideRare(cmd *cobra.Command) (hidden int) {
	if cmd.Flag(allFlag) == nil || asksForAll(cmd) {
		return 0
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[often] == nil && f.Name != "help" {
			f.Hidden = true
			hidden++
		}
	})
	return hidden
}
