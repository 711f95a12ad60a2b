package cli

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

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
