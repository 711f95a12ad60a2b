package cli

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"attestd/internal/lazyregexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
