package cmd

import (
	"strings"
	"testing"
	"unicode/utf8"

	"attestd/cmd/agent"
	"attestd/cmd/cli"
)

// A command's help shows how it is used, with a command line that the program takes.
func TestEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, c := range cli.AllCommands(Commands()) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for line := range strings.SplitSeq(c.Example, "\n") {
			words := shellWords(strings.ReplaceAll(strings.ReplaceAll(line, "SHA256:…", "SHA256:"+strings.Repeat("A", 43)), "enr_…", "enr_x"))
			if len(words) < 2 {
				continue
			}
			found, rest, err := Commands().Find(words[1:])
			if err == nil && found.HasParent() {
				if err = found.ParseFlags(rest); err == nil {
					err = found.ValidateArgs(found.Flags().Args())
				}
				if err == nil {
					err = found.ValidateRequiredFlags()
				}
			}
			if err != nil || words[0] != "attestd" || !found.HasParent() {
				t.Errorf("%s: %s: %v", c.CommandPath(), line, err)
			}
		}
	}
	for path := range examples {
		if found, rest, err := Commands().Find(strings.Fields(path)); err != nil || len(rest) > 0 || path != "" && !found.HasParent() {
			t.Errorf("there is an example of %q, and no such command", path)
		}
	}
}

// shellWords splits a line at spaces outside of quotes.
func shellWords(line string) (words []string) {
	quoted := rune(0)
	for _, part := range strings.FieldsFunc(line, func(r rune) bool {
		switch {
		case quoted == 0 && (r == '"' || r == '\''):
			quoted = r
		case r == quoted:
			quoted = 0
		}
		return r == ' ' && quoted == 0
	}) {
		words = append(words, strings.Trim(part, `"'`))
	}
	return words
}

// The help of each program, and of serve, fits a screen of 100 columns and 50 lines, and the
// program's has every command.
func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	whole, small := Commands(), agent.Root("1.0.0")
	serve, _, err := Commands().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		help func(*strings.Builder) error
	}{
		{"attestd", func(out *strings.Builder) error { whole.SetOut(out); return whole.Help() }},
		{"attestd-agent", func(out *strings.Builder) error { small.SetOut(out); return small.Help() }},
		{"attestd serve", func(out *strings.Builder) error { serve.SetOut(out); return serve.Help() }},
	} {
		var out strings.Builder
		if err := c.help(&out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) > 51 {
			t.Errorf("the help of %s has %d lines\n%s", c.name, len(lines), out.String())
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > 100 {
				t.Errorf("the help of %s has a line of %d columns: %s", c.name, utf8.RuneCountInString(line), line)
			}
		}
		if c.name == "attestd" {
			for _, sub := range whole.Commands() {
				if sub.Name() != "help" && !strings.Contains(out.String(), "\n  "+sub.Name()+" ") {
					t.Errorf("the help lacks %s", sub.Name())
				}
			}
		}
	}
}
