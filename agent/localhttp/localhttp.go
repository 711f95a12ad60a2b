// Package localhttp protects HTTP servers for programs of this machine from web pages.
package localhttp

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Only refuses requests for another host, as after DNS rebinding, and from another origin than the
// loopback addresses with the port. A proxy may have the requests of a public URL, or nil.
func Only(port string, public *url.URL, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host, port) && (public == nil || !strings.EqualFold(r.Host, public.Host)) {
			http.Error(w, "unknown host", http.StatusForbidden)
			return
		}
		for _, origin := range r.Header.Values("Origin") {
			if public != nil && origin == public.Scheme+"://"+public.Host {
				continue
			}
			if u, err := url.Parse(origin); err != nil || u.Scheme != "http" || !isLocal(u.Host, port) || origin != "http://"+u.Host {
				http.Error(w, "this origin is not allowed", http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isLocal reports whether host:port names the loopback and our port.
func isLocal(address, port string) bool {
	host, named, err := net.SplitHostPort(address)
	return err == nil && named == port && IsLoopback(host)
}

// IsLoopback reports whether a host without a port is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback() && ip.Zone() == ""
}
