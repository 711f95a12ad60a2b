package server

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// checkOrigin refuses a request that a page of another origin makes. A browser names the page (RFC
// 6454 §7) and lets it send anything; whether it may is for us to say. That the page's host is the
// one that the request is for proves nothing: a name can be bound to our address while the page is
// open. So a page is ours by what we know of ourselves: a loopback name or address with our port,
// the public address, or one that the operator has listed. What is no browser sends no Origin and
// is as free as without this.
func (s *Server) checkOrigin(r *http.Request) error {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if len(origins) == 1 && (slices.Contains(s.origins, strings.ToLower(origins[0])) || isOwnLoopback(origins[0], r)) {
		return nil
	}
	return fail(http.StatusForbidden, "Origin not allowed: pages of another address must be listed in --allowed-origins (or --base-url)")
}

// isOwnLoopback says whether origin is a page of this machine, at the port that the connection came
// in on.
func isOwnLoopback(origin string, r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(local.String())
	host, isHTTP := strings.CutPrefix(strings.ToLower(origin), "http://")
	if err != nil || !isHTTP || !loopbackHost(host) {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil { // the port of the scheme is not written
		name, port = host, "80"
	}
	return name != "" && port == strconv.Itoa(int(address.Port()))
}

// originOf is the origin of a URL as browsers write it; "" when it has none.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.ToLower(u.Scheme + "://" + strings.TrimSuffix(u.Host, port))
}
