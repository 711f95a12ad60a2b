package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// IsLocal reports whether a request comes from this machine without a proxy. A proxy is recognized
// by a forwarding header, by a Host that is not loopback, or, with an old default, by HTTP/1.0. A
// web page is recognized by Origin.
func IsLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() || !r.ProtoAtLeast(1, 1) || !IsLoopbackHost(r.Host) {
		return false
	}
	for name := range r.Header {
		switch {
		case name == "Origin", name == "Forwarded", name == "Via", name == "X-Real-Ip", strings.HasPrefix(name,
			"X-Forwarded-"):
			return false
		}
	}
	return true
}

func IsLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
