package cmd

import (
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/store"
)

// fromEnvironment sets each flag that was not typed from its environment variable. Flag over
// environment over default; a variable that is empty counts as not set.
func fromEnvironment(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Annotations[typedOnly] != nil || err != nil {
			return
		}
		for _, name := range environmentNames(f.Name) {
			value := os.Getenv(name)
			if value == "" {
				continue
			}
			if cmd.Flags().Set(f.Name, value) != nil {
				err = usagef("environment variable %s: %q is not a valid value for --%s", name, value, f.Name)
			}
			return
		}
	})
	if db := cmd.Flag("db"); err == nil && db != nil {
		return checkDatabase("--db", db.Value.String())
	}
	return err
}

// checkDatabase refuses what can name no database, or is a mistyped URL or another form of one. It
// does not repeat it, for it may hold a password.
func checkDatabase(what, name string) error {
	mistyped := strings.Contains(name, "://") || strings.HasPrefix(strings.ToLower(name), "postgres") && strings.Contains(name, "@") || strings.Contains(name, "password=")
	if name == "" || mistyped && !store.IsPostgres(name) {
		return usagef("%s must name a file, or be the URL of a PostgreSQL database, which begins with postgres://", what)
	}
	return nil
}

// fileOnly refuses a database that is no file to a command of files.
func fileOnly(command, instead string, names ...string) error {
	for _, name := range names {
		if store.IsPostgres(name) {
			return usagef("%s is for files; %s", command, instead)
		}
	}
	return nil
}

// shown is the name of a database for people: a file as it was typed, a URL without what is secret
// in it.
func shown(db string) string {
	if store.IsPostgres(db) {
		return store.Name(db)
	}
	return db
}

// typedOnly marks flags that no variable sets: what somebody trusts is said each time, and
// ATTESTD_KEY names a credential to whoever sends one.
const typedOnly = "typed-only"

// environmentNames lists where a flag's value may come from, the strongest first.
func environmentNames(flag string) []string {
	names := []string{"ATTESTD_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))}
	if flag == "base-url" {
		names = append(names, "SERVICE_BASE_URL") // the specification's own name
	}
	return names
}

func databaseFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "db", "attestd.db", "database: a `file`, or postgres://user@host/name; ATTESTD_DB keeps a password off the command line")
}

// checkListen checks the form of an address. Whether it is to be had shows when it is listened on.
func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usagef("--listen must look like 127.0.0.1:8080, got %q", address)
	}
	return nil
}

// parseBaseURL checks a public address and returns it without a trailing slash.
func parseBaseURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--base-url must look like https://attest.example.com, got %q", text)
	}
	return strings.TrimRight(text, "/"), nil
}

// hostOf is the host of a public address, with its port where it names one; "" of none.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// parseOrigins checks addresses of pages: scheme, host and perhaps a port, as a browser's Origin
// has them.
func parseOrigins(list []string) ([]string, error) {
	for _, text := range list {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, usagef("--allowed-origins must list addresses such as https://console.example.com, got %q", text)
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
			return nil, usagef("--trusted-proxies must list addresses or CIDR blocks such as 10.0.0.0/8, got %q", text)
		}
		proxies = append(proxies, prefix)
	}
	return proxies, nil
}
