package server

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"attestd/server/https"
)

// The bounds of the server that redirects. Its requests have no body that anybody reads.
const (
	redirectTimeout     = 10 * time.Second
	redirectHeaderBytes = 16 << 10
)

// redirects returns a server that sends readers to the same address on https, and answers
// challenges of an ACME CA where there is one.
func (t *TLS) redirects() *http.Server {
	var h http.Handler = http.HandlerFunc(t.redirect)
	if a, ok := t.Certificates.(*https.ACME); ok {
		h = a.HTTPChallenges(h)
	}
	return &http.Server{
		Handler: h, ReadHeaderTimeout: redirectTimeout, ReadTimeout: redirectTimeout, WriteTimeout: redirectTimeout,
		IdleTimeout: redirectTimeout, MaxHeaderBytes: redirectHeaderBytes,
	}
}

// redirect sends a request for a page to https. A request that has a credential or changes
// something is refused: it went over the network in plain text, and its sender must learn that.
func (t *TLS) redirect(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	to := url.URL{Scheme: "https", Host: host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	if t.RedirectPort != "" {
		to.Host = net.JoinHostPort(host, t.RedirectPort)
	} else if strings.Contains(host, ":") {
		to.Host = "[" + host + "]"
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Authorization") != "" || !isHost(host) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"error":"Forbidden: this address only redirects to https; if a credential was sent, it was sent unencrypted: replace it"}` + "\n"))
		return
	}
	w.Header().Set("Location", to.String())
	w.WriteHeader(http.StatusPermanentRedirect)
}

// isHost reports whether a Host is a name or an address, so that nothing else gets into Location.
func isHost(host string) bool {
	return host != "" && len(host) <= 253 && !strings.ContainsFunc(host, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(".-_:", r)
	})
}
