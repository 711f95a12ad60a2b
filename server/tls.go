package server

import (
	"context"
	"net/http"

	"attestd/server/httpapi"
	"attestd/server/https"
	"attestd/server/limit"
)

// addTo makes a lifecycle speak TLS. A connection has its seat during the handshake, for which
// net/http gives it readHeaderTimeout. Changes of client CAs are recorded as settings are at a
// start.
func (t *TLS) addTo(l *lifecycle, connections *limit.Listener, recordStart func(context.Context)) {
	connections.TLS()
	l.tls = https.Config(t.Certificates.GetCertificate, t.Certificates.Protocols(), t.ClientCAs)
	l.handler = strictTransport(boundStreams(l.handler, connections))
	l.workers = append(l.workers, t.Certificates.Run)
	if t.ClientCAs != nil {
		l.workers = append(l.workers, func(ctx context.Context) error {
			return t.ClientCAs.Run(ctx, func() { recordStart(ctx) })
		})
	}
	if t.Redirect != nil {
		l.plain, l.plainListener = t.redirects(), connections.Sharing(t.Redirect)
	}
}

// hstsHeader makes browsers use https alone for the host for 30 days (RFC 6797), so that an
// operator who gives TLS up does not wait a year. Subdomains may be another operator's.
var hstsHeader = []string{"max-age=2592000"}

// strictTransport sends hstsHeader, but not for a name of this machine: other programs on it have
// the same name, and may have no TLS.
func strictTransport(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && !httpapi.IsLoopbackHost(r.Host) {
			w.Header()["Strict-Transport-Security"] = hstsHeader
		}
		h.ServeHTTP(w, r)
	})
}
