package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// checkOrigin refuses requests from pages of other origins. A browser sends the page's origin (RFC
// 6454 §7) and lets the page send anything, so the server must decide. A match of the origin with
// the request's Host proves nothing, because a name can be rebound to this server's address while
// the page is open. So only known origins are allowed: a loopback name or address with this
// server's port, the public address, and those that the operator has listed. Clients other than
// browsers send no Origin and are not restricted.
func (a *API) checkOrigin(r *http.Request) error {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return nil
	}
	if len(origins) == 1 && (slices.Contains(*a.origins.Load(), strings.ToLower(origins[0])) || a.isOwnLoopback(origins[0], r)) {
		return nil
	}
	return Fail(http.StatusForbidden, "Origin not allowed: pages of another address must be listed in --allowed-origins (or --base-url)")
}

// isOwnLoopback reports whether an origin is a loopback name or address with our port.
func (a *API) isOwnLoopback(origin string, r *http.Request) bool {
	scheme := a.ownScheme(r)
	host, is := strings.CutPrefix(strings.ToLower(origin), scheme+"://")
	return is && IsLoopbackHost(a.ownHost(scheme, host))
}

// originOf returns the origin of a URL as browsers write it, or "".
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return ""
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.ToLower(u.Scheme + "://" + strings.TrimSuffix(u.Host, port))
}
