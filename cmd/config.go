package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"attestd/store/db"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/internal/spelling"
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

const (
	configName    = "attestd.toml"
	maxConfigFile = 256 << 10 // bytes
	// names in a file, each level of a name with dots counting. The decoder needs the time of the
	// whole file for each name that it reports.
	maxConfigNames = 256
	// of a value, in bytes
	maxConfigValue = 4096
	// mistakes that are listed, and the bytes of a misspelt name in each
	mostMistakes, mostOfName = 10, 64
)

// configRead annotates --config: the path of the file that was read.
const configRead = "config-read"

func configFlag(cmd *cobra.Command) {
	cmd.Flags().String("config", "", "`file` of settings (default: "+configName+" beside the database file, where that exists)")
}

// isSetting reports whether a configuration file may set a flag.
func isSetting(f *pflag.Flag) bool {
	return f.Name != "help" && f.Name != "config" && f.Annotations[cli.TypedOnly] == nil
}

func settingNames(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			names = append(names, f.Name)
		}
	})
	return names
}

// fromFile sets each flag that neither the command line nor the environment sets to its value in
// the configuration file.
func fromFile(flags *pflag.FlagSet) error {
	path, named := configPath(flags)
	if path == "" {
		return nil
	}
	text, info, err := readConfigFile(path, named)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usagef("configuration file: %s: not found", path)
	}
	if err != nil {
		return cli.UsageError{Err: fmt.Errorf("configuration file: %w", err)}
	}
	settings, err := parseConfig(text)
	if err != nil {
		return cli.UsageError{Err: inFile(path, err)}
	}
	var all []error
	for _, s := range settings {
		if err := s.set(flags, path, info, named); err != nil {
			all = append(all, inFile(path, lineError{s.line, err}))
		}
	}
	if more := len(all) - mostMistakes; more > 0 {
		all = append(all[:mostMistakes], fmt.Errorf("%s: and %d more", path, more))
	}
	if len(all) > 0 {
		return cli.UsageError{Err: errors.Join(all...)}
	}
	return flags.SetAnnotation("config", configRead, []string{path})
}

// configOf returns the path of the configuration file that was read, "" for none.
func configOf(flags *pflag.FlagSet) string {
	return strings.Join(flags.Lookup("config").Annotations[configRead], "")
}

// configPath returns the path of the configuration file, "" for none, and whether the user has
// named it. Otherwise it is in the folder of the database file, because a user who can write there
// can replace the database too.
func configPath(flags *pflag.FlagSet) (path string, named bool) {
	if f := flags.Lookup("config"); f.Changed {
		return f.Value.String(), true
	}
	database := flags.Lookup("db").Value.String()
	if db.IsPostgres(database) {
		return "", false
	}
	return filepath.Join(filepath.Dir(database), configName), false
}

// readConfigFile reads a configuration file, whose settings give rights.
func readConfigFile(path string, named bool) ([]byte, fs.FileInfo, error) {
	f, info, err := cli.OpenRights(path, false)
	if err != nil && !named && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; it is read because it is beside the database: --config names another, and --config= none", err)
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(text) > maxConfigFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxConfigFile)
	}
	return text, info, err
}

// lineError is an error in a line of a configuration file.
type lineError struct {
	line int
	error
}

func (e lineError) Unwrap() error { return e.error }

// inFile puts the place in front of an error.
func inFile(path string, err error) error {
	if at := (lineError{}); errors.As(err, &at) {
		return fmt.Errorf("%s:%d: %w", path, at.line, at.error)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fileSetting is a setting in a configuration file.
type fileSetting struct {
	name  string // with dots, where it is in a table
	line  int
	value any // as go-toml decodes it
}

// parseConfig parses a configuration file, in TOML.
func parseConfig(text []byte) ([]fileSetting, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // of Windows' editors
	values := map[string]any{}
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, atLine(err)
	}
	if countNames(values) > maxConfigNames {
		return nil, fmt.Errorf("it has more than %d names, and there are not so many settings", maxConfigNames)
	}
	// A struct without fields makes the strict decoder name each key with its position.
	strict := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	var keys *toml.StrictMissingError
	if err := strict.Decode(new(struct{})); err == nil {
		return nil, nil
	} else if !errors.As(err, &keys) {
		return nil, atLine(err)
	}
	var settings []fileSetting
	for i := range keys.Errors {
		key := keys.Errors[i].Key()
		line, _ := keys.Errors[i].Position()
		s := fileSetting{name: strings.Join(key, "."), line: line}
		if len(key) == 1 {
			s.value = values[key[0]]
		}
		settings = append(settings, s)
	}
	return settings, nil
}

// countNames counts the names in a value of a configuration file.
func countNames(value any) (n int) {
	switch v := value.(type) {
	case map[string]any:
		n = len(v)
		for _, inner := range v {
			n += countNames(inner)
		}
	case []any:
		for _, inner := range v {
			n += countNames(inner)
		}
	}
	return n
}

// atLine returns an error of the decoder with its line, and without the text of the line.
func atLine(err error) error {
	decoding := (*toml.DecodeError)(nil)
	if !errors.As(err, &decoding) {
		return err
	}
	line, _ := decoding.Position()
	return lineError{line, errors.New(strings.TrimPrefix(decoding.Error(), "toml: "))}
}

// set sets the flag of the setting, unless the command line or the environment does.
func (s fileSetting) set(flags *pflag.FlagSet, path string, info fs.FileInfo, named bool) error {
	f := flags.Lookup(s.name)
	if f == nil || !isSetting(f) {
		return s.unknown(settingNames(flags))
	}
	if s.name == "master-key-command" && !named {
		return errors.New("master-key-command runs a program, so that its file must be named with --config")
	}
	if text, ok := s.value.(string); ok && s.name == "db" && shown(text) != text && cli.IsExposed(path, info) {
		return fmt.Errorf("the password in db can be read by others; chmod 600 %s", printable.ShellWord(path))
	}
	if f.Changed {
		return checkValue(f, s.value)
	}
	if err := assign(f, s.value); err != nil {
		return err
	}
	f.Changed = true
	return flags.SetAnnotation(f.Name, cli.Origin, []string{cli.OriginFile, path + ":" + strconv.Itoa(s.line)})
}

func (s fileSetting) unknown(names []string) error {
	meant := ""
	shortened := s.name
	if len(shortened) > mostOfName {
		shortened = strings.ToValidUTF8(shortened[:mostOfName], "") + "…"
	}
	what := fmt.Sprintf("there is no setting %q", shortened)
	if table, ok := s.value.(map[string]any); ok {
		what = fmt.Sprintf("%q is a table, and settings have none", shortened)
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if meant = spelling.Nearest(cli.PlainSetting(s.name+"."+key), names); meant != "" {
				break
			}
		}
	}
	if meant = cmp.Or(meant, spelling.Nearest(cli.PlainSetting(s.name), names)); meant == "" {
		return errors.New(what + "; attestd config lists all")
	}
	return errors.New(what + "; did you mean " + meant + "?")
}

// checkValue checks a value for a flag that has another one.
func checkValue(f *pflag.Flag, value any) error {
	_, err := asText(f, value)
	return err
}

// assign sets a flag to a value of a configuration file.
func assign(f *pflag.Flag, value any) error {
	text, err := asText(f, value)
	if err != nil {
		return err
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(text)
	}
	if err := f.Value.Set(text[0]); err != nil {
		return fmt.Errorf("%q is not a valid value for %s", text[0], f.Name)
	}
	return nil
}

// asText returns a value of a configuration file as it would be typed, or as the elements of a
// list. Its type must be that of the flag.
func asText(f *pflag.Flag, value any) ([]string, error) {
	texts, err := textsOf(f, value)
	for _, text := range texts {
		if len(text) > maxConfigValue { // errors repeat values
			return nil, fmt.Errorf("%s has more than %d bytes", f.Name, maxConfigValue)
		}
	}
	return texts, err
}

func textsOf(f *pflag.Flag, value any) ([]string, error) {
	wrong := func(want string) ([]string, error) {
		return nil, fmt.Errorf("%s must be %s, and not %s", f.Name, want, kindOf(value))
	}
	switch f.Value.Type() {
	case "string", "duration":
		if text, ok := value.(string); ok {
			return []string{text}, nil
		}
		return wrong("a string in quotes")
	case "bool":
		if truth, ok := value.(bool); ok {
			return []string{strconv.FormatBool(truth)}, nil
		}
		return wrong("true or false")
	case "int", "int64":
		if number, ok := value.(int64); ok {
			return []string{strconv.FormatInt(number, 10)}, nil
		}
		return wrong("an integer")
	case "stringSlice":
		list, ok := value.([]any)
		if ok && len(list) == 0 {
			return nil, nil
		}
		texts := make([]string, len(list))
		for i := range list {
			if texts[i], ok = list[i].(string); !ok {
				break
			}
		}
		if !ok {
			return wrong(`a list of strings, as in ["a", "b"]`)
		}
		return texts, nil
	}
	return wrong("set elsewhere")
}

// kindOf names the type of a value in a configuration file.
func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a number with a fraction"
	case []any:
		return "this list"
	case map[string]any:
		return "a table"
	}
	return "a time"
}

// readSettings sets the flags that are absent from the command line: to the value of an environment
// variable, and for a command with a configuration file, to what that says.
func readSettings(cmd *cobra.Command) error {
	if err := cli.FromEnvironment(cmd.Flags()); err != nil {
		return err
	}
	if cmd.Flag("config") != nil {
		if err := fromFile(cmd.Flags()); err != nil {
			return err
		}
	}
	if database := cmd.Flag("db"); database != nil {
		if err := checkDatabase("--db", database.Value.String()); err != nil {
			return err
		}
	}
	if cmd.Annotations[readsNoPipes] != "" {
		return refusePipes(cmd.Flags())
	}
	return nil
}
