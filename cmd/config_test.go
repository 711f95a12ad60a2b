package cmd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/internal/must"
	"attestd/internal/printable"
	"attestd/internal/testenv"
)

// writeConfig returns the path of a new configuration file.
func writeConfig(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readServe returns serve with its settings, as Run reads them.
func readServe(t testing.TB, args ...string) (*cobra.Command, error) {
	t.Helper()
	cmd := serveCommand("1.0.0", "")
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return cmd, readSettings(cmd)
}

// sampleOf returns three values of a flag, none of which is its default: in TOML, and as they are
// typed.
func sampleOf(t testing.TB, f *pflag.Flag) (inFile [3]string, typed [3]string) {
	t.Helper()
	for i := range inFile {
		switch f.Value.Type() {
		case "string":
			typed[i] = fmt.Sprintf("sample-%d", i)
			inFile[i] = `"` + typed[i] + `"`
		case "duration":
			typed[i] = fmt.Sprintf("1h%dm0s", i+31)
			inFile[i] = `"` + typed[i] + `"`
		case "stringSlice":
			typed[i] = fmt.Sprintf("a%d,b%d", i, i)
			inFile[i] = fmt.Sprintf(`["a%d", "b%d"]`, i, i)
		case "int", "int64":
			typed[i] = fmt.Sprint(i + 91)
			inFile[i] = typed[i]
		case "bool": // has two values only
			typed[i] = fmt.Sprint((f.DefValue == "true") == (i == 1))
			inFile[i] = typed[i]
		default:
			t.Fatalf("--%s has the type %s, which a configuration file cannot have", f.Name, f.Value.Type())
		}
	}
	return inFile, typed
}

// Each flag of serve can be in the file under its name; its variable wins over that, and what is
// typed over both.
func TestEverySettingHasItsPrecedence(t *testing.T) {
	for _, name := range os.Environ() { // of the user who runs the test
		if name, _, _ := strings.Cut(name, "="); strings.HasPrefix(name, "ATTESTD_") {
			t.Setenv(name, "")
		}
	}
	names := settingNames(serveCommand("", "").Flags())
	if len(names) < 70 {
		t.Errorf("only %d settings", len(names))
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			inFile, typed := sampleOf(t, serveCommand("", "").Flag(name))
			path := writeConfig(t, "# the setting\n\n"+name+" = "+inFile[0]+"\n")
			value := func(text string) string {
				if serveCommand("", "").Flag(name).Value.Type() == "stringSlice" {
					return "[" + text + "]"
				}
				return text
			}
			expect := func(want, from, at string, args ...string) {
				t.Helper()
				cmd, err := readServe(t, append(args, "--config", path)...)
				if err != nil {
					t.Fatal(err)
				}
				f := cmd.Flag(name)
				by, where := cli.OriginOfFlag(f)
				if f.Value.String() != value(want) || by != from || where != at || !f.Changed {
					t.Errorf("%s from %s %s, want %s from %s %s", f.Value, by, where, value(want), from, at)
				}
			}
			expect(typed[0], cli.OriginFile, path+":3")
			for _, variable := range cli.EnvironmentNames(name) {
				t.Setenv(variable, typed[1])
				expect(typed[1], cli.OriginEnvironment, variable)
				expect(typed[2], "flag", "", "--"+name+"="+typed[2])
				t.Setenv(variable, "")
			}
			expect(typed[2], "flag", "", "--"+name+"="+typed[2])
		})
	}
}

// What is in the file and is no setting, comes twice, or has another type, is refused with the line
// and the name that was meant, and so is all of it at once.
func TestMisspeltSettingsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"lisen = ':80'":                       `:1: there is no setting "lisen"; did you mean listen?`,
		"\n\nregistraton = 'closed'":          `:3: there is no setting "registraton"; did you mean registration?`,
		"max_keys = 3":                        `:1: there is no setting "max_keys"; did you mean max-keys?`,
		"Stream = 'off'":                      `:1: there is no setting "Stream"; did you mean stream?`,
		"ATTESTD_STREAM = 'off'":              `did you mean stream?`,
		"--stream = 'off'":                    `did you mean stream?`,
		"tls.cert = 'x'":                      `:1: there is no setting "tls.cert"; did you mean tls-cert?`,
		"[tls]\nkey = 'x'":                    `:1: "tls" is a table, and settings have none; did you mean tls-key?`,
		"[serve]\nlisten = 'x'":               `:1: "serve" is a table, and settings have none`,
		"[[witness]]\nurl = 'x'":              `witness`,
		"something-else = 1":                  `:1: there is no setting "something-else"; attestd config lists all`,
		"config = 'x'":                        `there is no setting "config"`,
		"help = true":                         `there is no setting "help"`,
		"json = true":                         `there is no setting "json"`,
		"'' = 1":                              `there is no setting ""`,
		"key = 'secret'":                      `there is no setting "key"; did you mean export-cert-key?`,
		"stream = 'off'\nstream = 'open'":     `:2: key stream is already defined`,
		"stream = 'off'\n\"stream\" = 'open'": `:2: key stream is already defined`,
		"stream = true":                       `:1: stream must be a string in quotes, and not a boolean`,
		"max-keys = '3'":                      `:1: max-keys must be an integer, and not a string`,
		"max-keys = 3.0":                      `max-keys must be an integer, and not a number with a fraction`,
		"max-bytes = 0":                       `max-bytes must be a string in quotes, and not an integer`,
		"dpop-nonce = 1":                      `dpop-nonce must be true or false, and not an integer`,
		"dpop-nonce = 'true'":                 `dpop-nonce must be true or false, and not a string`,
		"witness = 'x'":                       `witness must be a list of strings, as in ["a", "b"], and not a string`,
		"witness = ['x', 1]":                  `witness must be a list of strings`,
		"backup-every = 6":                    `backup-every must be a string in quotes`,
		"backup-every = 'daily'":              `"daily" is not a valid value for backup-every`,
		"stream = 1979-05-27":                 `stream must be a string in quotes, and not a time`,
		"stream = {a = 1}":                    `stream must be a string in quotes, and not a table`,
		"max-keys = 99999999999999999999":     `:1: `,
		"stream = off":                        `:1: `,
		"stream = 'off":                       `:1: `,
		"stream = '\xff'":                     `:1: `,
		"\x00":                                `:1: `,
		"listen = :8080":                      `:1: `,
		"a = " + strings.Repeat("[", 200_000): `:1: `,
		"#" + strings.Repeat("x", 256<<10):    `has more than 262144 bytes`,
		"lisen = 1\nstraem = 2\nmax-keys='x'": `did you mean stream?`,
	} {
		path := writeConfig(t, text+"\n")
		_, err := readServe(t, "--config", path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || !errors.As(err, new(cli.UsageError)) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the value is in %v", text, err)
		}
	}
	_, err := readServe(t, "--config", writeConfig(t, "lisen = 1\nstraem = 2\nmax-keys='x'\n"))
	for _, want := range []string{":1: ", ":2: ", ":3: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not all mistakes are in %v", err)
		}
	}
	// as an editor of Windows writes it
	if cmd, err := readServe(t, "--config", writeConfig(t, "\ufeffstream = 'off'\r\nmax-keys = 3\r\n")); err != nil || cmd.Flag("max-keys").Value.String() != "3" {
		t.Error(err)
	}
	// a wrong type is refused also where a flag wins
	if _, err := readServe(t, "--stream=off", "--config", writeConfig(t, "stream = 1\n")); err == nil {
		t.Error("a wrong type beside a flag is taken")
	}
}

// Whatever a file of the largest size has, it is refused soon, with a short error: on SIGHUP that
// is one line of the log.
func TestConfigurationFileOfManyMistakes(t *testing.T) {
	testenv.Needs(t, testenv.NotRaced)
	t.Parallel()
	const size = 256 << 10 // as docs/configure.md says
	fill := func(line string) string { return strings.Repeat(line, size/len(line)) }
	var names strings.Builder
	for i := 0; names.Len() < size-20; i++ {
		fmt.Fprintf(&names, "a%d=1\n", i)
	}
	for what, c := range map[string]struct{ text, want string }{
		"names":        {names.String(), "more than 256 names"},
		"mistakes":     {strings.Join(strings.SplitAfter(names.String(), "\n")[:200], ""), "and 190 more"},
		"tables":       {fill("[[a.b]]\nc=1\n"), "more than 256 names"},
		"dots":         {"a" + fill(".a")[:size-10] + "=1", "more than 256 names"},
		"inline":       {"a=[" + fill("{b=1},")[:size-20] + "]", ""},
		"a long name":  {fill("a")[:size-10] + "=1", ":1: there is no setting"},
		"a long value": {`listen="` + fill("a")[:size-20] + `"`, "listen has more than 4096 bytes"},
		"a long part":  {`witness=["` + fill("a")[:size-20] + `"]`, "witness has more than 4096 bytes"},
		"empty lines":  {strings.Join(strings.SplitAfter(names.String(), "\n")[:200], "") + fill("\n")[:size/2], "and 190 more"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			_, err := readServe(t, "--config", writeConfig(t, c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 16<<10 || !errors.As(err, new(cli.UsageError)) {
				t.Errorf("%.1000v, want %s", err, c.want)
			}
		})
	}
}

// The file that others can write or replace is refused, whether it was named or found; one that is
// not there is an error only where it was named.
func TestConfigurationFileOfOthersIsRefused(t *testing.T) {
	testenv.Needs(t, testenv.Plain)
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes of files")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		file, folder os.FileMode
		named, found string // the error where it was named, and where it was found
	}{
		"private":              {0o600, 0o700, "", ""},
		"readable":             {0o644, 0o755, "", ""},
		"writable by group":    {0o660, 0o700, "others can write", "others can write"},
		"writable by others":   {0o602, 0o700, "others can write", "others can write"},
		"folder of the group":  {0o600, 0o770, "group or others may write", "group or others may write"},
		"folder of all":        {0o600, 0o777, "group or others may write", "group or others may write"},
		"folder that is /tmp":  {0o600, 0o777 | os.ModeSticky, "", ""},
		"no file in any of it": {0, 0o777, "not found", ""},
	} {
		folder := filepath.Join(t.TempDir(), "data")
		must.OK(t, os.Mkdir(folder, 0o700))
		path := filepath.Join(folder, configName)
		if c.file != 0 {
			must.OK(t, os.WriteFile(path, []byte("stream = 'off'\n"), 0o600))
			must.OK(t, os.Chmod(path, c.file))
		}
		must.OK(t, os.Chmod(folder, c.folder))
		for how, want := range map[string]string{"--config=" + path: c.named, "--db=" + filepath.Join(folder, "acme.db"): c.found} {
			cmd, err := readServe(t, how)
			switch {
			case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s, %s: %v, want %q", name, how, err, want)
			case want == "" && c.file != 0 && (cmd.Flag("stream").Value.String() != "off" || configOf(cmd.Flags()) != path):
				t.Errorf("%s, %s: not read", name, how)
			}
		}
		if cmd, err := readServe(t, "--config=", "--db="+filepath.Join(folder, "acme.db")); err != nil || configOf(cmd.Flags()) != "" {
			t.Errorf("%s, --config=: %v", name, err)
		}
	}
	folder := t.TempDir()
	if _, err := readServe(t, "--config="+folder); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	// a database of PostgreSQL has no folder for a file
	cmd, err := readServe(t, "--db=postgres://attestd@db.example.com/attestd")
	if err != nil || configOf(cmd.Flags()) != "" {
		t.Error(err)
	}
}

// A file of another user is refused, though only that user can write it.
func TestConfigurationFileOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, testenv.Root)
	path := writeConfig(t, "stream = 'off'\n")
	must.OK(t, os.Chown(path, 12345, 12345))
	if _, err := readServe(t, "--config", path); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Error(err)
	}
}

// A file that was only found runs no program, and a password in a file is for its owner alone.
func TestConfigurationFileGivesNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, configName)
	must.OK(t, os.WriteFile(path, []byte("master-key-command = 'cat key'\n"), 0o600))
	if _, err := readServe(t, "--db", filepath.Join(folder, "acme.db")); err == nil || !strings.Contains(err.Error(), "must be named") {
		t.Errorf("found: %v", err)
	}
	if _, err := readServe(t, "--config", path); err != nil {
		t.Errorf("named: %v", err)
	}
	path = writeConfig(t, "db = 'postgres://attestd:hush@db.example.com/attestd'\n")
	if _, err := readServe(t, "--config", path); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	must.OK(t, os.Chmod(path, 0o644))
	if _, err := readServe(t, "--config", path); err == nil || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "hush") {
		t.Errorf("readable by others: %v", err)
	}
	path = writeConfig(t, "db = 'http://attestd:hush@db.example.com/attestd'\n")
	if _, err := readServe(t, "--config", path); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("a malformed URL: %v", err)
	}
}

// attestd config shows no secret that a setting may have, in text and as JSON, wherever it is set.
func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{
		"db=postgres://attestd:hush@db.example.com/attestd",
		"db=postgres://db.example.com/attestd?user=attestd&password=hush",
		"master-key-command=vault -token=hush read key",
		"export-address=https://user:hush@siem.example.com/in",
		"export-address=https://siem.example.com/in?token=hush",
		"witness=https://hush@w.example.com=key",
		"base-url=https://a:hush@example.com",
		"backup-s3-endpoint=https://a:hush@example.com",
		"allowed-origins=https://hush@example.com,https://b.example.com?hush",
		"acme-directory=https://a:hush@example.com/dir",
	} {
		name, value, _ := strings.Cut(setting, "=")
		cmd, err := readServe(t, "--"+name, value)
		must.OK(t, err)
		var text bytes.Buffer
		all := shownSettings(cmd.Flags())
		writeSettings(&text, all)
		for _, s := range all {
			must.OK(t, printable.JSON(&text, s))
		}
		if strings.Contains(text.String(), "hush") || !strings.Contains(text.String(), "\n"+name+" ") && !strings.Contains(text.String(), "#"+name+" is set") {
			t.Errorf("%s is shown as\n%s", setting, text.String())
		}
	}
}

// What attestd config prints is a configuration file with the same values, defaults apart, and has
// no control character.
func TestConfigPrintsAConfigurationFile(t *testing.T) {
	t.Parallel()
	for _, name := range settingNames(serveCommand("", "").Flags()) {
		if name == "master-key-command" {
			continue // is not shown
		}
		_, typed := sampleOf(t, serveCommand("", "").Flag(name))
		cmd, err := readServe(t, "--"+name+"="+typed[0])
		must.OK(t, err)
		var text bytes.Buffer
		writeSettings(&text, shownSettings(cmd.Flags()))
		again, err := readServe(t, "--config", writeConfig(t, text.String()))
		must.OK(t, err)
		for _, other := range settingNames(cmd.Flags()) {
			if was, is := cmd.Flag(other), again.Flag(other); was.Value.String() != is.Value.String() || was.Changed != is.Changed {
				t.Errorf("--%s is %s, and was %s", other, is.Value, was.Value)
			}
		}
	}
	odd := "a\"b\\c\x1b[31m\u202e\u2028\U000e0001\u00e9\n"
	cmd, err := readServe(t, "--log-format", odd, "--witness", "x", "--cosign-for=a]b")
	must.OK(t, err)
	var text bytes.Buffer
	writeSettings(&text, shownSettings(cmd.Flags()))
	if strings.ContainsFunc(text.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("%q", text.String())
	}
	again, err := readServe(t, "--config", writeConfig(t, text.String()))
	if err != nil || again.Flag("log-format").Value.String() != odd {
		t.Errorf("%v, %q", err, again.Flag("log-format").Value)
	}
}

// Whatever is in the file, it is refused, or each setting has one value of its type.
func FuzzConfigurationFile(f *testing.F) {
	for _, seed := range []string{
		"listen = ':80'\nmax-keys = 3\n", "a.b = 1\n[c]\n[[d]]\n", "witness = ['a', 'b']\r\n", "stream = \"\\u0000\"\n",
		"max-keys = 0x7fffffffffffffff\n", "dpop-nonce = true # yes\n", "a = [[[[\n", "\ufeffa = 1\n", "db = '''\nx'''\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := parseConfig(text)
		if err != nil {
			return
		}
		cmd := serveCommand("", "")
		info, err := os.Stat("config_test.go")
		must.OK(t, err)
		lines := strings.Count(string(text), "\n") + 1
		names := settingNames(cmd.Flags())
		for _, s := range settings {
			if s.line < 1 || s.line > lines {
				t.Errorf("%q is in line %d of %d", s.name, s.line, lines)
			}
			if err := s.set(cmd.Flags(), "x", info, true); err == nil && !slices.Contains(names, s.name) {
				t.Errorf("%q was set", s.name)
			}
		}
	})
}

// A variable that is a misspelt setting of serve is refused with the right name. Other unknown ones
// are warned of, and what Kubernetes makes of a service named attestd is let through.
func TestMisspeltVariables(t *testing.T) {
	t.Parallel()
	serve, _, _ := Commands().Find([]string{"serve"})
	values := map[string]string{"ATTESTD_PORT": "tcp://10.0.0.1:8080", "ATTESTD_SERVICE_PORT": "8080", "ATTESTD_SERVICE_PORT_HTTP": "8080"}
	for name, want := range map[string]string{
		"ATTESTD_REGISTRATON":       "refused ATTESTD_REGISTRATION",
		"ATTESTD_REGISTRATIONS":     "refused ATTESTD_REGISTRATION",
		"ATTESTD_STRAEM":            "refused ATTESTD_STREAM",
		"ATTESTED_STREAM":           "refused ATTESTD_STREAM",
		"ATTEST_STREAM":             "refused ATTESTD_STREAM",
		"attestd_stream":            "refused ATTESTD_STREAM",
		"Attestd_Stream":            "refused ATTESTD_STREAM",
		"ATTESTD_TLS-CERT":          "refused ATTESTD_TLS_CERT",
		"ATTESTD_MAX_KEY":           "refused ATTESTD_MAX_KEYS",
		"ATTESTD_TRUSTED_PROXY":     "refused ATTESTD_TRUSTED_PROXIES",
		"ATTESTD_NO_RECOVER_ENDPNT": "refused ATTESTD_NO_RECOVER_ENDPOINT",
		"ATTESTD_CONFG":             "refused ATTESTD_CONFIG",
		"ATTESTD_DBS":               "refused ATTESTD_DB",

		"ATTESTD_VERSION": "warned", "ATTESTD_IMAGE": "warned", "ATTESTD_WHATEVER": "warned", "ATTESTD_DB_PASSWORD": "warned",
		"ATTESTD_": "warned", "ATTESTD_LISTEN_PORT": "warned",

		"ATTESTD_STREAM": "", "ATTESTD_URL": "", "ATTESTD_KEY": "", "ATTESTD_KEY_FILE": "", "ATTESTD_COMPANY": "", "ATTESTD_AGENT_KEY_FILE": "",
		"ATTESTD_EXPORT_TOKEN": "", "SERVICE_BASE_URL": "", "PATH": "", "STREAM": "", "AT": "", "": "",
		"ATTESTD_SERVICE_HOST": "", "ATTESTD_SERVICE_PORT": "", "ATTESTD_SERVICE_PORT_HTTP": "", "ATTESTD_PORT": "",
		"ATTESTD_PORT_8080_TCP": "", "ATTESTD_PORT_8080_TCP_PROTO": "", "ATTESTD_PORT_8080_TCP_PORT": "", "ATTESTD_PORT_8080_TCP_ADDR": "",
		"ATTESTD_WEB_SERVICE_HOST": "", "ATTESTD_WEB_PORT_53_UDP_ADDR": "",
	} {
		unknown, err := cli.CheckEnvironment(serve, []string{name + "=" + cmp.Or(values[name], "hush"), "ATTESTD_LISTN=", "HOME=/x"})
		got := ""
		switch {
		case err != nil:
			_, meant, _ := strings.Cut(err.Error(), "did you mean ")
			meant, _, _ = strings.Cut(meant, "?")
			got = "refused " + meant
			if strings.Contains(err.Error(), "hush") || !errors.As(err, new(cli.UsageError)) {
				t.Errorf("%s: %v", name, err)
			}
		case slices.Equal(unknown, []string{name}):
			got = "warned"
		case len(unknown) > 0:
			got = strings.Join(unknown, " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Every variable of every command, and each that the program reads by name, is known.
func TestKnownVariables(t *testing.T) {
	t.Parallel()
	serve, _, _ := Commands().Find([]string{"serve"})
	var all []string
	for _, c := range cli.AllCommands(Commands()) {
		for _, name := range cli.Variables(c.Flags()) {
			all = append(all, name+"=1")
		}
	}
	all = append(all, "ATTESTD_TEST_DB=postgres")
	unknown, err := cli.CheckEnvironment(serve, all)
	if err != nil || len(unknown) > 0 || len(all) < 200 {
		t.Errorf("%d variables: %v, %v", len(all), unknown, err)
	}
}
