package cmd

import (
	"testing"

	"github.com/spf13/pflag"

	"attestd/cmd/cli"
)

// No variable sets a flag of hook, whichever flag it gets, but for how the server is reached: a
// project's settings may set variables for the hooks of every user who opens it.
func TestNoVariableDecidesWhatAHookRecords(t *testing.T) {
	reaches := map[string]bool{"url": true, "ca-file": true}
	cmd, _, err := Commands().Find([]string{"hook"})
	if err != nil || cmd.Name() != "hook" {
		t.Fatal(cmd.Name(), err)
	}
	before := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		before[f.Name] = f.Value.String()
		for _, name := range cli.EnvironmentNames(f.Name) {
			t.Setenv(name, "from-a-variable")
		}
	})
	if err := readSettings(cmd); err != nil {
		t.Fatal(err)
	}
	decides := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		now := f.Value.String()
		if reaches[f.Name] {
			if now == before[f.Name] {
				t.Errorf("a variable does not set --%s, with which the server is reached", f.Name)
			}
			return
		}
		if decides++; now != before[f.Name] || f.Changed {
			t.Errorf("a variable sets --%s to %q", f.Name, now)
		}
	})
	if decides < 6 { // agent, fail, from, redact, require, state
		t.Errorf("%d flags were looked at", decides)
	}
}
