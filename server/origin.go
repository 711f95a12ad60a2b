package server

import (
	"net/http"
	"net/url"
	"strings"
)

// ownOrigin says whether a request comes from a page of ours, or from no page at all. Any page may open a WebSocket
// to anywhere, and a browser only names the page; whether it may is for us to say (RFC 6455 §10.2). The host must be the one that the
// request is for. A page read over https may use a connection that came to us as http, from a proxy that does not tell,
// but never the reverse.
func ownOrigin(r *http.Request) bool {
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	u, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || u.User != nil || u.Path != "" {
		return false
	}
	scheme := forwardedProto(r)
	if u.Scheme != "https" && (u.Scheme != "http" || scheme == "https") {
		return false
	}
	// A port that is the scheme's own may be written or not.
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return u.Host != "" && strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(r.Host, port))
}
