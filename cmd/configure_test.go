package cmd

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
)

const configurePage = "../docs/configure.md"

var updatePages = flag.Bool("update", false, "write "+configurePage)

// The part of the page that stands between two marks is made of the commands: go generate ./cmd
// writes it.
func TestConfigurationPage(t *testing.T) {
	text, err := os.ReadFile(configurePage)
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(`(?s)^(.*<!-- commands -->\n)(.*)(<!-- /commands -->\n)$`).FindSubmatch(text)
	if parts == nil {
		t.Fatalf("%s has no marks around what is made of the commands", configurePage)
	}
	want := string(parts[1]) + documentedCommands(rootCommand("", "")) + string(parts[3])
	if *updatePages {
		if err := os.WriteFile(configurePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(text) {
		t.Errorf("%s does not describe the flags as they are: go generate ./cmd", configurePage)
	}
}

// The example of a configuration file on the page is one that serve takes.
func TestExampleOnTheConfigurationPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(configurePage)
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```toml\n(.*?)```").FindSubmatch(text)
	if example == nil {
		t.Fatalf("%s has no example", configurePage)
	}
	cmd, err := readServe(t, "--config", writeConfig(t, string(example[1])))
	if err != nil || cmd.Flag("max-keys").Value.String() != "100" {
		t.Error(err)
	}
}

// Each variable that the program reads by its name stands on the page.
func TestVariablesAreOnTheConfigurationPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(configurePage)
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`os\.(?:Getenv|LookupEnv)\("([A-Z_]+)"\)`)
	found := 0
	for _, folder := range []string{"../agent", "../chain", "../cmd", "../crypto", "../sdk", "../server", "../store", "../web"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && slices.Contains([]string{"pgtest", "storetest", "node_modules"}, entry.Name()):
				return filepath.SkipDir
			case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			source, err := os.ReadFile(path)
			for _, m := range read.FindAllSubmatch(source, -1) {
				found++
				if !strings.Contains(string(page), "`"+string(m[1])+"`") {
					t.Errorf("%s reads %s, and %s does not tell of it", path, m[1], configurePage)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 5 {
		t.Errorf("%d reads of variables were found in the source", found)
	}
}

// documentedCommands has a section for each command with flags of its own, in the order of names.
func documentedCommands(root *cobra.Command) string {
	var all []*cobra.Command
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.LocalNonPersistentFlags().HasFlags() {
				all = append(all, c)
			}
			walk(c)
		}
	}
	walk(root)
	slices.SortFunc(all, func(a, b *cobra.Command) int { return cmp.Compare(a.CommandPath(), b.CommandPath()) })
	serve, _, _ := root.Find([]string{"serve"})
	var page strings.Builder
	for _, c := range all {
		fmt.Fprintf(&page, "## %s\n\n%s.", c.CommandPath(), c.Short)
		if c == serve {
			page.WriteString(" In the [configuration file](#the-configuration-file) a flag has its name without `--`.\nSIGHUP takes changes of those marked with ↻.")
		}
		fmt.Fprint(&page, "\n\n| Flag | Variable | Default | Meaning |\n|---|---|---|---|\n")
		ofServe := false
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Name == "help":
			case f.Annotations[asServe] != nil || c.Name() == "config" && serve.Flag(f.Name) != nil:
				ofServe = true
			default:
				fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", flagCell(f), variableCell(f), defaultCell(f), meaningCell(f))
			}
		})
		if ofServe {
			page.WriteString("\nIt also takes every other flag and variable of [attestd serve](#attestd-serve).\n")
		}
		page.WriteByte('\n')
	}
	return page.String()
}

func flagCell(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	return "`" + strings.ReplaceAll(strings.TrimSpace("--"+f.Name+" "+name), "|", `\|`) + "`"
}

func variableCell(f *pflag.Flag) string {
	if f.Annotations[cli.TypedOnly] != nil {
		return "none: it is always typed"
	}
	var names []string
	for _, name := range cli.EnvironmentNames(f.Name) {
		names = append(names, "`"+name+"`")
	}
	return strings.Join(names, ", ")
}

func defaultCell(f *pflag.Flag) string {
	if slices.Contains([]string{"", "false", "[]"}, f.DefValue) {
		return ""
	}
	return "`" + f.DefValue + "`"
}

func meaningCell(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	if f.Annotations[reloads] != nil {
		usage += " ↻"
	}
	return strings.ReplaceAll(usage, "|", `\|`)
}
