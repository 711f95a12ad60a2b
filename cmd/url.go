package cmd

import (
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// completeURL puts http:// in front of an address of this machine that was given without it, such
// as localhost:8080. Any other address must say whether it is encrypted.
func completeURL(cmd *cobra.Command) error {
	flag := cmd.Flag("url")
	if flag == nil || flag.Value.String() == "" || strings.Contains(flag.Value.String(), "://") {
		return nil
	}
	full := "http://" + flag.Value.String()
	u, err := url.Parse(full)
	if err != nil || u.Host == "" {
		return nil // the client says what is wrong
	}
	address, _ := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && !address.IsLoopback() {
		return usagef("the URL must look like https://attest.example.com, with https:// or http:// in front; try https://%s", u.Host)
	}
	return flag.Value.Set(full)
}
