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

const (
	configurePage   = "../docs/configure.md"
	configureFolder = "../docs/configure/"
)

var updatePages = flag.Bool("update", false, "write "+configurePage+" and the pages of its folder")

// The part of the page between two marks, and the pages of the folder docs/configure, are made of
// the commands: go generate ./cmd writes them.
func TestConfigurationPages(t *testing.T) {
	text, err := os.ReadFile(configurePage)
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(`(?s)^(.*<!-- commands -->\n)(.*)(<!-- /commands -->\n)$`).FindSubmatch(text)
	if parts == nil {
		t.Fatalf("%s has no marks around what is made of the commands", configurePage)
	}
	serve, want := documentedCommands(t, rootCommand("", ""))
	want[configurePage] = string(parts[1]) + serve + string(parts[3])
	found, err := filepath.Glob(configureFolder + "*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(found, configurePage) {
		if want[page] == "" {
			t.Errorf("%s is of no group of commands: remove it", page)
		}
	}
	for page, text := range want {
		if *updatePages {
			if err := os.MkdirAll(configureFolder, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if is, err := os.ReadFile(page); err != nil || string(is) != text {
			t.Errorf("%s does not describe the flags as they are: go generate ./cmd", page)
		}
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

// Each variable that the program reads by its name is on the page.
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

// documentedCommands has the section of serve, and a page for each group of the help, with a
// section for each command that has flags of its own, in the order of names.
func documentedCommands(t *testing.T, root *cobra.Command) (ofServe string, pages map[string]string) {
	t.Helper()
	serve, _, _ := root.Find([]string{"serve"})
	groups := map[string][]*cobra.Command{}
	for _, c := range cli.AllCommands(root) {
		if !c.LocalNonPersistentFlags().HasFlags() || c == serve || c == root {
			continue
		}
		name := strings.Fields(c.CommandPath())[1]
		title := cli.GroupOf(name)
		if title == "" {
			t.Errorf("%s is in no group of the help", name)
		}
		groups[title] = append(groups[title], c)
	}
	pages = map[string]string{}
	for title, list := range groups {
		slices.SortFunc(list, func(a, b *cobra.Command) int { return cmp.Compare(a.CommandPath(), b.CommandPath()) })
		var page strings.Builder
		fmt.Fprintf(&page, "# Flags of the commands: %s\n\nFor those who type these commands or set their variables: every flag, with its default.\n"+
			"[configure.md](../configure.md) says where a value comes from, and has `attestd serve`.\n\n", title)
		page.WriteString(index(list))
		for _, c := range list {
			page.WriteString(documentedCommand(c, serve))
		}
		pages[configureFolder+strings.ToLower(title)+".md"] = strings.TrimSuffix(page.String(), "\n")
	}
	return documentedCommand(serve, serve), pages
}

// index links to the sections of commands, in lines of at most 120 columns.
func index(list []*cobra.Command) string {
	var text, line string
	for i, c := range list {
		link := fmt.Sprintf("[%s](#%s)", strings.TrimPrefix(c.CommandPath(), "attestd "), strings.ReplaceAll(c.CommandPath(), " ", "-"))
		if i < len(list)-1 {
			link += " ·"
		}
		if line != "" && len(line)+1+len(link) > 120 {
			text, line = text+line+"\n", ""
		}
		line = strings.TrimSpace(line + " " + link)
	}
	return text + line + "\n\n"
}

// documentedCommand is the section of a command.
func documentedCommand(c, serve *cobra.Command) string {
	var page strings.Builder
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
		page.WriteString("\nIt also takes every other flag and variable of [attestd serve](../configure.md#attestd-serve).\n")
	}
	page.WriteByte('\n')
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
