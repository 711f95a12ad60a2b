package httpapi

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"testing"
)

func TestClientIP(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tt := range []struct {
		name, peer string
		forwarded  []string // lines of X-Forwarded-For
		want       string
	}{
		{"no proxy", "192.0.2.1:1000", nil, "192.0.2.1"},
		{"a stranger's header", "192.0.2.1:1000", []string{"198.51.100.7"}, "192.0.2.1"},
		{"a proxy", "10.0.0.1:1000", []string{"198.51.100.7"}, "198.51.100.7"},
		{"a proxy without the header", "10.0.0.1:1000", nil, "10.0.0.1"},
		{"what the client made up stands left", "10.0.0.1:1000", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		{"two proxies", "10.0.0.1:1000", []string{"203.0.113.9, 198.51.100.7, 10.9.9.9"}, "198.51.100.7"},
		{"several lines are one list", "10.0.0.1:1000", []string{"203.0.113.9", "198.51.100.7 ,10.9.9.9", "10.8.8.8"}, "198.51.100.7"},
		{"only proxies", "10.0.0.1:1000", []string{"10.7.7.7, 10.9.9.9"}, "10.7.7.7"},
		{"with a port", "10.0.0.1:1000", []string{"198.51.100.7:4711"}, "198.51.100.7"},
		{"IPv6", "[fd00::1]:1000", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 with a port", "[fd00::1]:1000", []string{"[2001:db8::7]:4711"}, "2001:db8::7"},
		{"IPv4-mapped peer", "[::ffff:10.0.0.1]:1000", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
		{"zone", "[fe80::1%eth0]:1000", nil, "fe80::1"},
		{"no address ends the walk", "10.0.0.1:1000", []string{"198.51.100.7, unknown"}, "10.0.0.1"},
		{"so does an empty entry", "10.0.0.1:1000", []string{"198.51.100.7,"}, "10.0.0.1"},
		{"and after a proxy", "10.0.0.1:1000", []string{"198.51.100.7, _hidden, 10.9.9.9"}, "10.9.9.9"},
		{"no IP at all", "@", []string{"198.51.100.7"}, "invalid IP"},
	} {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{
			"X-Forwarded-For": tt.forwarded, "Forwarded": {"for=203.0.113.99"}, "X-Real-Ip": {"203.0.113.99"},
		}}
		if got := clientIP(r, trusted).String(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestForwardedProto(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		header []string
		tls    bool
		want   string
	}{
		{nil, false, "http"},
		{nil, true, "https"},
		{[]string{"https"}, false, "https"},
		{[]string{"http"}, true, "http"},
		{[]string{"HTTPS"}, false, "http"},
		{[]string{"https, http"}, false, "http"},
		{[]string{"https", "http"}, false, "http"},
		{[]string{"javascript"}, true, "https"},
		{[]string{""}, true, "https"},
	} {
		r := &http.Request{Header: http.Header{"X-Forwarded-Proto": tt.header}}
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := forwardedProto(r); got != tt.want {
			t.Errorf("%q, TLS %v: %s, want %s", tt.header, tt.tls, got, tt.want)
		}
	}
}
