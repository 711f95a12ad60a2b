package cli

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"attestd/internal/lazyregexp"
)

// TypedOnly marks flags that no environment variable sets. A user states on each command line what
// to trust, and ATTESTD_KEY already names a credential.
const TypedOnly = "typed-only"

// TypeOnly marks every flag that a command has by now as typed only, but for these.
func TypeOnly(cmd *cobra.Command, but ...string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(but, f.Name) {
			_ = cmd.Flags().SetAnnotation(f.Name, TypedOnly, []string{"true"}) // the flag is there
		}
	})
}

// CheckListen checks the form of an address. Only listening shows whether the address is available.
func CheckListen(flag, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		example := "127.0.0.1:8080"
		if ip, err := netip.ParseAddr(address); err == nil {
			example = netip.AddrPortFrom(ip, 8080).String()
		} else if _, err := strconv.ParseUint(address, 10, 16); err == nil {
			example = "127.0.0.1:" + address
		}
		return Usagef("--%s must be an address with a port, such as %s, got %q", flag, example, address)
	}
	return nil
}

// CheckFingerprint returns a usage error unless the value of name is the fingerprint of a key.
func CheckFingerprint(name, value string) error {
	if !FingerprintForm().MatchString(value) {
		return Usagef("%s must be a fingerprint, SHA256: and 43 characters", name)
	}
	return nil
}

// FingerprintForm is the form of the fingerprint of a key.
var FingerprintForm = lazyregexp.New(`^SHA256:[A-Za-z0-9_-]{43}$`)

// completeURL adds http:// to a loopback address without a scheme, such as localhost:8080. Other
// addresses must have a scheme, so that no credential is sent unencrypted by mistake.
func completeURL(cmd *cobra.Command) error {
	flag := cmd.Flag("url")
	if flag == nil || flag.Value.String() == "" || strings.Contains(flag.Value.String(), "://") {
		return nil
	}
	full := "http://" + flag.Value.String()
	u, err := url.Parse(full)
	if err != nil || u.Host == "" {
		return nil // the client returns the error
	}
	address, _ := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && !address.IsLoopback() {
		return Usagef("the URL must begin with https:// or http://; try https://%s", u.Host)
	}
	return flag.Value.Set(full)
}

// ParseInstant parses a time in RFC 3339, or a time relative to now: 90m, 1h30m, 7d ago.
func ParseInstant(text string, now time.Time) (at time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, !at.IsZero()
	}
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseUint(days, 10, 15)
		return now.AddDate(0, 0, -int(n)), err == nil
	}
	ago, err := time.ParseDuration(text)
	return now.Add(-ago), err == nil && ago >= 0
}

// origin annotates a flag that is set, and not by the command line: by what (OriginEnvironment or
// OriginFile), and the variable or the line.
const (
	Origin            = "origin"
	OriginEnvironment = "environment"
	OriginFile        = "file"
)

// OriginOfFlag returns what has set a flag, and where.
func OriginOfFlag(f *pflag.Flag) (from, at string) {
	switch by := f.Annotations[Origin]; {
	case !f.Changed:
		return "default", ""
	case len(by) == 2:
		return by[0], by[1]
	}
	return "flag", ""
}

var flagInText = lazyregexp.New(`--([a-z0-9-]+)`)

// WithPlaces adds to an error the origins of the flags that it names and that were not typed.
func WithPlaces(flags *pflag.FlagSet, err error) error {
	var places []string
	for _, m := range flagInText().FindAllStringSubmatch(err.Error(), -1) {
		f := flags.Lookup(m[1])
		if f == nil {
			continue
		}
		if by, at := OriginOfFlag(f); at != "" {
			if place := fmt.Sprintf("%s is set by the %s %s", f.Name, by, at); !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
	}
	if len(places) == 0 {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(places, ", "))
}
