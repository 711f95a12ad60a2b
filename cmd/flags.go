package cmd

import (
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/cmd/cli"
	"attestd/store/db"
)

// readsNoPipes annotates a command that looks at the settings of serve. To read a pipe it would
// wait for who writes it, and take from the server what is in it.
const readsNoPipes = "reads-no-pipes"

// refusePipes refuses a flag that names a pipe as a file. A shell's <(…) is under /dev, and has
// somebody who writes it.
func refusePipes(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(f); what != "file" || f.Name == "db" || f.Name == "heads" || err != nil {
			return // database and head file have checks of their own
		}
		paths := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			paths = list.GetSlice()
		}
		for _, path := range paths {
			info, missing := os.Stat(path)
			absolute, _ := filepath.Abs(path)
			isOpen := strings.HasPrefix(absolute, "/dev/") || strings.HasPrefix(absolute, "/proc/")
			if missing == nil && info.Mode()&fs.ModeNamedPipe != 0 && !isOpen {
				err = cli.Usagef("--%s: %s is a pipe, which would have to be waited for", f.Name, path)
			}
		}
	})
	return err
}

// checkDatabase refuses a name that is empty or a malformed database URL. The error does not repeat
// the name, which may contain a password.
func checkDatabase(what, name string) error {
	mistyped := strings.Contains(name, "://") ||
		strings.HasPrefix(strings.ToLower(name), "postgres") && strings.Contains(name, "@") ||
		strings.Contains(name, "password=")
	if name == "" || mistyped && !db.IsPostgres(name) {
		return cli.Usagef("%s must name a file, or be the URL of a PostgreSQL database, which begins with postgres://", what)
	}
	return nil
}

// fileOnly refuses a PostgreSQL URL given to a command that works on files only.
func fileOnly(command, instead string, names ...string) error {
	for _, name := range names {
		if db.IsPostgres(name) {
			return cli.Usagef("%s works on files only; %s", command, instead)
		}
	}
	return nil
}

// shown returns the name of a database for messages: the path of a file as it was typed, or a URL
// without its secrets.
func shown(database string) string {
	if db.IsPostgres(database) {
		return db.Name(database)
	}
	return database
}

func databaseFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "db", "attestd.db",
		"database: a `file`, or postgres://user@host/name; ATTESTD_DB keeps a password off the command line")
}

// portOf returns the port of an address on which a listener listens.
func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// parseBaseURL checks a public address and returns it without a trailing slash.
func parseBaseURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", cli.Usagef("--base-url must look like https://attest.example.com, got %q", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// hostOf returns the host of a public address, with the port if it has one, and "" for an invalid
// address.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// parseOrigins checks origins of web pages: scheme, host and an optional port, as in a browser's
// Origin header.
func parseOrigins(list []string) ([]string, error) {
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
			strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, cli.Usagef("--allowed-origins must list addresses such as https://console.example.com, got %q", text)
		}
	}
	return list, nil
}

// parseProxies reads addresses and CIDR blocks.
func parseProxies(list []string) ([]netip.Prefix, error) {
	var proxies []netip.Prefix
	for _, text := range list {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			proxies = append(proxies, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, cli.Usagef("--trusted-proxies must list addresses or CIDR blocks such as 10.0.0.0/8, got %q", text)
		}
		proxies = append(proxies, prefix)
	}
	return proxies, nil
}

// checkBelongs refuses a flag with a prefix that has another value than its default while the one
// to which it belongs is not set: nothing would be done, and nothing would say so.
func checkBelongs(flags *pflag.FlagSet, prefix, to string) (err error) {
	if flags.Lookup(to).Value.String() != "" {
		return nil
	}
	flags.Visit(func(f *pflag.Flag) {
		if err == nil && f.Name != to && strings.HasPrefix(f.Name, prefix) && f.Value.String() != f.DefValue {
			err = cli.Usagef("--%s does nothing without --%s", f.Name, to)
		}
	})
	return err
}
