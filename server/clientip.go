package server

import (
	"net/http"
	"net/netip"
	"strings"
)

// clientIP is the address that a request counts against: the peer's, or, while that is a trusted
// proxy, the one before it in X-Forwarded-For, read from the right. Everything left of the first
// address that is not trusted is the client's own word and is never looked at; an entry that is no
// address ends the walk at the proxy that passed it on.
//
// Forwarded (RFC 7239) and X-Real-IP are not read: a proxy that maintains one of these headers
// hands the others through as the client sent them, and reading more than one would let the client
// choose. The result is never IPv4-mapped and has no zone; it is the zero Addr when the peer has no
// IP address.
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

// parseHop reads an address with or without a port; the zero Addr when s is neither.
func parseHop(s string) netip.Addr {
	ip, err := netip.ParseAddr(s)
	if err != nil {
		withPort, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}
		}
		ip = withPort.Addr()
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

// forwardedProto is the scheme of the address that a client uses for us: X-Forwarded-Proto when it
// is exactly http or https, else what the connection says. Unlike X-Forwarded-For it counts from
// any peer: it only chooses the scheme of the URL in a discovery document, whose Host the client
// chooses as well.
func forwardedProto(r *http.Request) string {
	if v := r.Header["X-Forwarded-Proto"]; len(v) == 1 && (v[0] == "http" || v[0] == "https") {
		return v[0]
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
