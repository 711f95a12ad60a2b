package cmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/printable"
	"attestd/internal/spelling"
	"attestd/store"
)

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
// named it. Otherwise it is beside the database file, because whoever can write there can replace
// the database too.
func configPath(flags *pflag.FlagSet) (path string, named bool) {
	if f := flags.Lookup("config"); f.Changed {
		return f.Value.String(), true
	}
	db := flags.Lookup("db").Value.String()
	if store.IsPostgres(db) {
		return "", false
	}
	return filepath.Join(filepath.Dir(db), configName), false
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
