package httpapi

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientIP returns the address that a request counts for: the peer's, or if that is a trusted
// proxy, the one before it in X-Forwarded-For, read from the right. Everything left of the first
// untrusted address is the client's claim and is ignored. If an entry is not an address, the result
// is the proxy that forwarded it.
//
// Forwarded (RFC 7239) and X-Real-IP are ignored: a proxy that sets one of these headers forwards
// the others as the client sent them, so reading more than one would let the client choose. The
// result is never IPv4-mapped and has no zone; it is the zero Addr if the peer has no IP address.
func clientIP(r *http.Request, trusted []netip.Prefix) netip.Addr {
	ip := parseHop(r.RemoteAddr)
	if !trustedHop(ip, trusted) {
		return ip
	}
	lines := r.Header["X-Forwarded-For"]
	for i := len(lines) - 1; i >= 0; i-- {
		rest, more := lines[i], true
		for more {
			hop := rest
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, hop = rest[:comma], rest[comma+1:]
			} else {
				more = false
			}
			next := parseHop(strings.TrimSpace(hop))
			if !next.IsValid() {
				return ip
			}
			ip = next
			if !trustedHop(ip, trusted) {
				return ip
			}
		}
	}
	return ip
}

// parseHop parses an address with or without a port. It returns the zero Addr if s is neither.
func parseHop(s string) netip.Addr {
	withPort, err := netip.ParseAddrPort(s) // which every request has
	ip := withPort.Addr()
	if err != nil {
		if ip, err = netip.ParseAddr(s); err != nil {
			return netip.Addr{}
		}
	}
	return ip.Unmap().WithZone("")
}

func trustedHop(ip netip.Addr, trusted []netip.Prefix) bool {
	for _, p := range trusted {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// forwardedProto returns X-Forwarded-Proto if it is exactly http or https, otherwise the scheme of
// the connection. The peer chooses the header: ownScheme accepts it only from trusted proxies. The
// discovery document of the specification, which does not identify the server, accepts it from
// every peer.
func forwardedProto(r *http.Request) string {
	if v := r.Header["X-Forwarded-Proto"]; len(v) == 1 && (v[0] == "http" || v[0] == "https") {
		return v[0]
	}
	return connectionProto(r)
}

// connectionProto returns the scheme that a connection speaks.
func connectionProto(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
