package cli

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/internal/lazyregexp"
	"attestd/internal/spelling"
)

// ownVariables are variables of attestd that set no flag.
var ownVariables = []string{"ATTESTD_KEY", "ATTESTD_KEY_FILE", "ATTESTD_AGENT_KEY_FILE", "ATTESTD_EXPORT_TOKEN"}

// testVariables begins the names of variables of our tests, which start servers.
const testVariables = "ATTESTD_TEST_"

// serviceLinks are variables, with values, that Kubernetes and Docker make of a service. It may be
// named attestd: ATTESTD_SERVICE_HOST, ATTESTD_PORT_8080_TCP_ADDR.
var serviceLinks = lazyregexp.New(`^[A-Z0-9_]+_(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+$|PORT=[a-z]+://|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// EnvironmentNames lists the variables that set a flag, in order of precedence.
func EnvironmentNames(flag string) []string {
	names := []string{"ATTESTD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
	if flag == "base-url" {
		names = append(names, "SERVICE_BASE_URL") // the specification's own name
	}
	return names
}

// FromEnvironment sets each flag that is absent from the command line to the value of its
// environment variable. An empty variable counts as unset.
func FromEnvironment(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Annotations[TypedOnly] != nil || err != nil {
			return
		}
		for _, name := range EnvironmentNames(f.Name) {
			value := os.Getenv(name)
			if value == "" {
				continue
			}
			if flags.Set(f.Name, value) != nil {
				err = Usagef("environment variable %s: %q is not a valid value for --%s", name, value, f.Name)
				return
			}
			err = flags.SetAnnotation(f.Name, Origin, []string{OriginEnvironment, name})
			return
		}
	})
	return err
}

// CheckEnvironment looks for misspelt variables of a command that has settings. A variable that
// may mean one of its settings is refused, because settings give rights. Another unknown one that
// begins with ATTESTD_ is returned, so that it can be warned of.
func CheckEnvironment(cmd *cobra.Command, environment []string) (unknown []string, err error) {
	settings := Variables(cmd.Flags())
	known := slices.Concat(settings, ownVariables)
	for _, c := range AllCommands(cmd.Root()) {
		known = append(known, Variables(c.Flags())...)
	}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if runtime.GOOS == "windows" { // where their case does not matter
			name = strings.ToUpper(name)
		}
		if value == "" || slices.Contains(known, name) || strings.HasPrefix(name, testVariables) || serviceLinks().MatchString(variable) {
			continue
		}
		if meant := meantVariable(name, settings); meant != "" {
			return nil, Usagef("environment variable %s is no setting; did you mean %s? If not, unset it for %s", name, meant, cmd.CommandPath())
		}
		if strings.HasPrefix(name, "ATTESTD_") {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown, nil
}

// meantVariable returns the setting that an unknown variable is a misspelling of, or "".
func meantVariable(name string, settings []string) string {
	plain := strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
	if !strings.HasPrefix(plain, "AT") {
		return ""
	}
	best, fewest := "", 0
	for _, s := range settings {
		most := spelling.Few(strings.TrimPrefix(s, "ATTESTD_"))
		if len(plain) > len(s)+most {
			continue
		}
		if d := spelling.Edits(plain, s); d <= most && (best == "" || d < fewest) {
			best, fewest = s, d
		}
	}
	return best
}

// Variables lists the environment variables that set one of these flags.
func Variables(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Annotations[TypedOnly] == nil {
			names = append(names, EnvironmentNames(f.Name)...)
		}
	})
	return names
}

// AllCommands lists a command and all below it.
func AllCommands(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, c := range root.Commands() {
		all = append(all, AllCommands(c)...)
	}
	return all
}

// UnknownVariable is the warning about a variable that nothing reads.
func UnknownVariable(name string) string {
	return fmt.Sprintf("nothing reads the environment variable %s; attestd config lists the settings", name)
}

// ofOtherPrograms are names that other programs use for the same setting.
var ofOtherPrograms = map[string]string{"port": "listen", "host": "listen", "bind": "listen", "addr": "listen", "address": "listen", "database": "db",
	"data": "db", "data-dir": "db", "dsn": "db", "server": "url", "endpoint": "url", "output": "out", "cert": "tls-cert",
	"p": "listen", "c": "config", "d": "db", "o": "out", "u": "url"}

// unknownFlag adds the flag that a misspelt one may mean to the error about it.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := err.(*pflag.NotExistError)
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if meant := ofOtherPrograms[unknown.GetSpecifiedName()]; cmd.Flag(meant) != nil {
		return didYouMean(err, "--"+meant)
	}
	if meant := spelling.Nearest(PlainSetting(unknown.GetSpecifiedName()), names); meant != "" {
		return didYouMean(err, "--"+meant)
	}
	return err
}

// PlainSetting returns a misspelt name in the form of a flag's name.
func PlainSetting(name string) string {
	name = strings.NewReplacer("_", "-", ".", "-", " ", "-").Replace(strings.ToLower(name))
	return strings.TrimPrefix(strings.TrimLeft(name, "-"), "attestd-")
}
