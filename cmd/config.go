package cmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/printable"
)

func configCommand(version, schema string) *cobra.Command {
	f := serveFlags{version: version, schema: schema}
	var asJSON, checkOnly bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the settings of serve, and where each comes from",
		Long: `Show every setting of attestd serve with its value in force, and where that comes from: a flag, an
environment variable, a line of the configuration file, or the default. It takes the flags of serve,
reads the same variables and the same file, and opens no database. What it prints is a configuration
file; defaults are comments in it. Secrets are not shown.

It ends with exit status 2 when serve would refuse the settings. --check prints nothing else, and
also reads the files that the settings name: run it before a restart or a reload.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{readsNoPipes: "yes"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			unknown, err := cli.CheckEnvironment(cmd, os.Environ())
			if err != nil {
				return err
			}
			for _, name := range unknown {
				cli.PrintError("attestd: %s\n", cli.UnknownVariable(name))
			}
			if checkOnly {
				return f.check(cmd.Flags())
			}
			shown := shownSettings(cmd.Flags())
			if asJSON {
				for _, s := range shown {
					if err := printable.JSON(cmd.OutOrStdout(), s); err != nil {
						return err
					}
				}
			} else {
				writeSettings(cmd.OutOrStdout(), shown)
			}
			if _, err := f.domain(cmd.Flags()); err != nil {
				return err
			}
			_, err = f.config(cmd.Flags())
			return err
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	cmd.Flags().BoolVar(&checkOnly, "check", false, "print nothing, and read the files that the settings name")
	for _, name := range []string{"json", "check"} {
		_ = cmd.Flags().SetAnnotation(name, cli.TypedOnly, []string{"true"})
	}
	return cmd
}

// check checks the settings, and the files that they name, as a start does before it opens the
// database. It runs no program, connects to nothing and writes nothing.
func (f serveFlags) check(flags *pflag.FlagSet) error {
	if _, err := f.domain(flags); err != nil {
		return err
	}
	if _, err := f.config(flags); err != nil {
		return err
	}
	if f.cosignFor != "" {
		if _, err := readCosignedLogs(f.cosignFor); err != nil {
			return err
		}
	}
	if _, err := f.backup.check(f.db); err != nil {
		return err
	}
	discard := slog.New(slog.DiscardHandler)
	if f.tls.cert != "" {
		if _, err := f.tls.openFiles(discard); err != nil {
			return err
		}
	}
	if f.tls.clientCA != "" {
		if _, err := f.tls.openClientCAs(discard); err != nil {
			return err
		}
	}
	if f.master.command != "" && f.master.file == "" {
		return nil // serve runs it
	}
	_, err := f.master.read(context.Background())
	return err
}

// shownSetting is a setting of serve as attestd config shows it.
type shownSetting struct {
	Setting string `json:"setting"`
	// a string, number, boolean or list; null if it is hidden
	Value  any    `json:"value"`
	Hidden bool   `json:"hidden,omitempty"` // a secret may be in it
	From   string `json:"from"`             // flag, environment, file or default
	At     string `json:"at,omitempty"`     // the variable, or the file and the line
	Reload bool   `json:"reload"`           // whether SIGHUP takes a change
}

func shownSettings(flags *pflag.FlagSet) (all []shownSetting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !isSetting(f) {
			return
		}
		s := shownSetting{Setting: f.Name, Reload: f.Annotations[reloads] != nil}
		s.From, s.At = cli.OriginOfFlag(f)
		s.Value, s.Hidden = shownValue(f)
		all = append(all, s)
	})
	return all
}

// secretsOfURL are the parts of a URL that may have a secret: a user's, and a query.
var secretsOfURL = regexp.MustCompile(`(://)[^/?#\s@]*@|\?[^\s,]*`)

// shownValue returns the value of a flag without secrets. hidden says that nothing of it is shown.
func shownValue(f *pflag.Flag) (value any, hidden bool) {
	public := func(text string) string { return secretsOfURL.ReplaceAllString(text, "$1…") }
	switch list, isList := f.Value.(pflag.SliceValue); {
	case isList:
		values := []string{}
		for _, text := range list.GetSlice() {
			values = append(values, public(text))
		}
		return values, false
	case f.Name == "db":
		return shown(f.Value.String()), false
	case strings.HasSuffix(f.Name, "-command") && f.Value.String() != "":
		return nil, true
	case f.Value.Type() == "bool":
		return f.Value.String() == "true", false
	case f.Value.Type() == "int" || f.Value.Type() == "int64":
		number, _ := strconv.ParseInt(f.Value.String(), 10, 64)
		return number, false
	case strings.Contains(f.Value.String(), "://"):
		return public(f.Value.String()), false
	}
	return f.Value.String(), false
}

// writeSettings prints settings as a configuration file, with where each comes from as a comment.
func writeSettings(w io.Writer, all []shownSetting) {
	lines, width := make([]string, len(all)), 0
	for i, s := range all {
		lines[i] = s.Setting + " = " + tomlText(s.Value)
		if s.Hidden {
			lines[i] = "#" + s.Setting + " is set, and not shown"
		} else if s.From == "default" {
			lines[i] = "#" + lines[i]
		}
		if n := len([]rune(lines[i])); n <= 60 {
			width = max(width, n)
		}
	}
	for i, s := range all {
		from := s.From
		if s.At != "" {
			from += " " + s.At
		}
		printable.Fprintf(w, "%-*s  # %s\n", width, lines[i], from)
	}
}

// tomlText returns a value in TOML. In strings, what moves or colours something on a terminal is
// escaped.
func tomlText(value any) string {
	switch v := value.(type) {
	case string:
		return tomlString(v)
	case []string:
		quoted := slices.Clone(v)
		for i := range quoted {
			quoted[i] = tomlString(v[i])
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return fmt.Sprint(value)
}

func tomlString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(fmt.Sprintf(`\U%08X`, r))
		}
	}
	b.WriteByte('"')
	return b.String()
}
