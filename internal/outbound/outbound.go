// Package outbound determines to which addresses the service connects on behalf of a tenant, who
// names them: public ones, so that no tenant reaches what only this machine can.
package outbound

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"

	"code.dny.dev/ssrf"
)

// Guard checks the actual address of each connection after the name lookup, so DNS rebinding gains
// nothing.
type Guard struct {
	private bool // also allow private networks, this machine, and http
	public  *ssrf.Guardian
	all     *ssrf.Guardian
}

// NewGuard returns a guard that allows public addresses, or also private networks, this machine and
// http.
func NewGuard(private bool) Guard {
	within := func(prefixes ...string) (list []netip.Prefix) {
		for _, p := range prefixes {
			list = append(list, netip.MustParsePrefix(p))
		}
		return list
	}
	return Guard{
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

// Allow is the Control of a net.Dialer.
func (g Guard) Allow(network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ssrf.ErrInvalidHostPort, err)
	}
	if network != "tcp4" && network != "tcp6" {
		return ssrf.ErrProhibitedNetwork
	}
	return g.check(to.Addr())
}

func (g Guard) check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	switch {
	case !g.private:
		return g.public.SafeAddr(ip)
	case ip == netip.MustParseAddr(metadataV6):
		return ssrf.ErrProhibitedIP
	}
	return g.all.SafeAddr(ip)
}

// MaxURL is how many bytes a URL may have.
const MaxURL = 2048

// CheckURL returns what is wrong with a URL, as far as that is known without a name lookup.
func (g Guard) CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("must be an absolute URL")
	case len(text) > MaxURL:
		return fmt.Errorf("must have at most %d bytes", MaxURL)
	case u.Scheme != "https" && (u.Scheme != "http" || !g.private):
		return errors.New("must be an https URL")
	case u.User != nil:
		return errors.New("must not hold a password")
	case u.Fragment != "":
		return errors.New("must not have a fragment")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && g.check(ip) != nil {
		return errors.New("must not be of an address that is not public")
	}
	return nil
}

// IsProhibited reports whether a guard has refused the connection that err is about.
func IsProhibited(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedNetwork) || errors.Is(err, ssrf.ErrInvalidHostPort)
}

// Options are those of a client that connects to what tenants name.
type Options struct {
	AllowPrivate bool           // allow private networks, this machine, and http
	UserAgent    string         // header of requests
	Resolver     *net.Resolver  // nil for the system's
	Roots        *x509.CertPool // nil for the system's
}

const maxHeader = 16 << 10

// NewClient returns a client that uses no proxy and follows no redirect, and its transport, in
// which the caller sets how connections are reused. The dialer's Control MUST be a guard's.
func NewClient(o Options, dialer *net.Dialer) (*http.Client, *http.Transport) {
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}, transport
}

// pageStart is how much of an answer IsPage needs.
const pageStart = 512

// IsPage reports whether the body of an answer is an HTML page, which programs do not send to
// programs. With a status of success it is the sign-in page of a gateway or captive portal, which
// has not handed the request on. The Content-Type decides nothing: frameworks send an "ok" as
// text/html.
func IsPage(body []byte) bool {
	start := bytes.TrimLeft(bytes.TrimPrefix(body[:min(len(body), pageStart)], []byte("\xef\xbb\xbf")), " \t\r\n")
	for _, tag := range []string{"<!doctype html", "<html"} {
		if len(start) > len(tag) && bytes.EqualFold(start[:len(tag)], []byte(tag)) && bytes.IndexByte([]byte(" \t\r\n>"), start[len(tag)]) >= 0 {
			return true
		}
	}
	return false
}
