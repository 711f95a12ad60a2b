package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"syscall"

	"code.dny.dev/ssrf"
)

// guard determines to which addresses connections are allowed. It checks the actual address of each
// connection after the name lookup, so DNS rebinding gains nothing.
type guard struct {
	private bool // also allow private networks, this machine, and http
	public  *ssrf.Guardian
	all     *ssrf.Guardian
}

func newGuard(private bool) guard {
	within := func(prefixes ...string) (list []netip.Prefix) {
		for _, p := range prefixes {
			list = append(list, netip.MustParsePrefix(p))
		}
		return list
	}
	return guard{
		private: private,
		public:  ssrf.New(ssrf.WithAnyPort()),
		all: ssrf.New(ssrf.WithAnyPort(),
			ssrf.WithAllowedV4Prefixes(within("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")...),
			ssrf.WithAllowedV6Prefixes(within("::1/128", "fc00::/7")...)),
	}
}

// metadataV6 is the address of a cloud's instance metadata, with credentials, within the private
// networks. Its IPv4 counterpart is link-local and never allowed.
const metadataV6 = "fd00:ec2::254"

// allow is the Control of a net.Dialer.
func (g guard) allow(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ssrf.ErrInvalidHostPort, err)
	}
	if network != "tcp4" && network != "tcp6" {
		return ssrf.ErrProhibitedNetwork
	}
	return g.check(to.Addr())
}

func (g guard) check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	switch {
	case !g.private:
		return g.public.SafeAddr(ip)
	case ip == netip.MustParseAddr(metadataV6):
		return ssrf.ErrProhibitedIP
	}
	return g.all.SafeAddr(ip)
}

const maxURL = 2048

// CheckURL returns what is wrong with the URL of an endpoint, as far as that is known without a
// name lookup.
func (c *Client) CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("must be an absolute URL")
	case len(text) > maxURL:
		return fmt.Errorf("must have at most %d bytes", maxURL)
	case u.Scheme != "https" && (u.Scheme != "http" || !c.guard.private):
		return errors.New("must be an https URL")
	case u.User != nil:
		return errors.New("must not hold a password; messages are signed")
	case u.Fragment != "":
		return errors.New("must not have a fragment")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && c.guard.check(ip) != nil {
		return errors.New("must not be of an address that is not public")
	}
	return nil
}
