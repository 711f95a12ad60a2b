package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"
)

// A name is the server's by its configuration: --base-url, or else a loopback name with its port or
// the address that it listens on.
func TestOwnBase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listening, base, scheme, host, want string }{
		{"127.0.0.1:8080", "", "http", "127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"127.0.0.1:8080", "", "http", "LocalHost:8080", "http://localhost:8080"},
		{"127.0.0.1:8080", "", "http", "localhost", ""},
		{"127.0.0.1:8080", "", "http", "localhost:08080", ""},
		{"127.0.0.1:8080", "", "http", "localhost.:8080", ""},
		{"127.0.0.1:8080", "", "http", "127.1:8080", ""},
		{"127.0.0.1:8080", "", "http", "2130706433:8080", ""},
		{"127.0.0.1:8080", "", "http", "[::1%25lo]:8080", ""},
		{"127.0.0.1:8080", "", "http", "[::1%lo]:8080", ""},
		{"127.0.0.1:8080", "", "http", "user@127.0.0.1:8080", ""},
		{"127.0.0.1:8080", "", "http", "127.0.0.1:8080/x", ""},
		{"127.0.0.1:8080", "", "http", ":8080", ""},
		{"127.0.0.1:8080", "", "http", "", ""},
		{"127.0.0.1:80", "", "http", "localhost", "http://localhost"},
		{"127.0.0.1:80", "", "http", "localhost:80", "http://localhost"},
		{"[::1]:80", "", "http", "[::1]", "http://[::1]"},
		{"[::1]:80", "", "http", "::1", "http://[::1]"},
		{"127.0.0.1:80", "", "http", "", ""},
		{"127.0.0.1:443", "", "https", "localhost", "https://localhost"},
		{"127.0.0.1:443", "", "http", "localhost", ""},
		{"127.0.0.1:443", "", "http", "localhost:443", "http://localhost:443"},
		{"192.0.2.1:8080", "", "http", "192.0.2.1:8080", "http://192.0.2.1:8080"},
		{"192.0.2.1:8080", "", "http", "[::ffff:192.0.2.1]:8080", "http://192.0.2.1:8080"},
		{"192.0.2.1:8080", "", "https", "192.0.2.1:8080", "https://192.0.2.1:8080"},
		{"192.0.2.1:8080", "", "http", "192.0.2.2:8080", ""},
		{"192.0.2.1:8080", "", "http", "192.0.2.1", ""},
		{"192.0.2.1:8080", "", "http", "attest.example.com:8080", ""},
		{"[2001:db8::1]:8080", "", "http", "[2001:DB8:0::1]:8080", "http://[2001:db8::1]:8080"},
		{"0.0.0.0:8080", "", "http", "localhost:8080", "http://localhost:8080"},
		{"0.0.0.0:8080", "", "http", "0.0.0.0:8080", ""},
		{"0.0.0.0:8080", "", "http", "192.0.2.1:8080", ""},
		{"[::]:8080", "", "http", "[::]:8080", ""},
		{"", "", "http", "localhost:0", ""}, // a listener without an address
		{"", "", "http", "localhost", ""},
		{"0.0.0.0:8080", "https://attest.example.com", "http", "evil.example", "https://attest.example.com"},
		{"0.0.0.0:8080", "https://attest.example.com", "http", "localhost:8080", "https://attest.example.com"},
	} {
		s := &API{BaseURL: c.base}
		if c.listening != "" {
			s.Listening = netip.MustParseAddrPort(c.listening)
		}
		r := &http.Request{Host: c.host, RemoteAddr: "192.0.2.9:1", Header: http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"host=evil.example"}}}
		if c.scheme == "https" {
			r.TLS = &tls.ConnectionState{}
		}
		if got := s.OwnBase(r); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
