package cmd

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/agent"
	"attestd/cmd/cli"
)

// The small program has commands of attestd alone, with the same flags.
func TestSmallProgramIsAPartOfAttestd(t *testing.T) {
	t.Parallel()
	flagsOf := func(c *cobra.Command) (names []string) {
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name+" "+f.DefValue) })
		return names
	}
	whole := map[string][]string{}
	for _, c := range cli.AllCommands(Commands()) {
		whole[c.CommandPath()] = flagsOf(c)
	}
	small := cli.AllCommands(agent.Root("1.0.0"))
	for _, c := range small {
		path := strings.Replace(c.CommandPath(), "attestd-agent", "attestd", 1)
		if flags, has := whole[path]; !has || !slices.Equal(flags, flagsOf(c)) {
			t.Errorf("%s has the flags %q, and %s has %q", c.CommandPath(), flagsOf(c), path, flags)
		}
	}
	for _, name := range []string{"agent-key", "attest", "check", "hook", "init", "mcp", "mcp-server", "records", "run", "tail", "token"} {
		if !slices.ContainsFunc(small, func(c *cobra.Command) bool { return c.CommandPath() == "attestd-agent "+name }) {
			t.Errorf("attestd-agent has no command %s", name)
		}
	}
}

// Its help names the commands that a user has with it alone.
func TestSmallProgramNamesItself(t *testing.T) {
	t.Parallel()
	for _, c := range cli.AllCommands(agent.Root("1.0.0")) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"hook", "init", "mcp", "run", "agent-key"} {
			if strings.Contains(out.String(), "attestd "+name+" ") {
				t.Errorf("the help of %s names attestd %s", c.CommandPath(), name)
			}
		}
	}
}
