package outbound

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
)

// Options are those of a client that connects to what tenants name.
type Options struct {
	AllowPrivate bool           // allow private networks, this machine, and http
	UserAgent    string         // header of requests
	Resolver     *net.Resolver  // nil for the system's
	Roots        *x509.CertPool // nil for the system's
}

const maxHeader = 16 << 10

// NewClient returns a client that uses no proxy and follows no redirect, and its transport, in
// which the caller sets how connections are kept. The dialer's Control MUST be a guard's.
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
