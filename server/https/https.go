// Package https has what a server needs in addition to net/http to speak TLS itself: certificates
// from files that are read again when they change, or from a CA by ACME (RFC 8555), and the
// identity that a client certificate shows (SPIFFE X.509-SVID).
package https

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"
)

// Status is what is known of the certificate that is shown to clients.
type Status struct {
	Names               []string  // for which it is: the DNS names of the first certificate
	NotBefore, NotAfter time.Time // of the one that ends first; zero while there is none
	Loaded              time.Time // when it was installed
	LastError           string    // why a newer one was not; "" where nothing is wrong
	LastErrorAt         time.Time
}

// endsWithin is how long before its end a certificate should have been renewed, unless it is valid
// for less than five times as long.
const endsWithin = 7 * 24 * time.Hour

// Ends reports whether the certificate has ended, ends soon, or cannot be renewed: the newer one
// cannot be read, or the CA issues none.
func (s Status) Ends(now time.Time) bool {
	if s.LastError != "" {
		return true
	}
	return !s.NotAfter.IsZero() && s.NotAfter.Sub(now) < min(endsWithin, s.NotAfter.Sub(s.NotBefore)/5)
}

// The bounds on what a client may send as its certificate.
const (
	maxClientCerts     = 8
	maxClientCertBytes = 16 << 10
)

// Config returns settings of TLS: at least TLS 1.2, and for the rest Go's defaults. Protocols are
// those of ALPN in addition to HTTP's. clients is nil where no client certificate is asked for. One
// is never required, because it counts as any other credential, and is verified for each request.
func Config(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols []string, clients *ClientCAs) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate,
		NextProtos: append([]string{"h2", "http/1.1"}, protocols...)}
	if clients == nil {
		return c
	}
	c.ClientAuth = tls.RequestClientCert
	c.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error {
		total := 0
		for _, cert := range raw {
			total += len(cert)
		}
		if len(raw) > maxClientCerts || total > maxClientCertBytes {
			return fmt.Errorf("a client certificate may come with %d certificates of %d bytes at most", maxClientCerts,
				maxClientCertBytes)
		}
		return nil
	}
	// The names of the CAs, by which clients choose, change with the file.
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		named := c.Clone()
		named.GetConfigForClient = nil
		named.ClientCAs = clients.pool()
		return named, nil
	}
	return c
}

// warnWithin is how long before its end a certificate is warned of, once a day.
const (
	warnWithin = 14 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// expiryWarning logs that a certificate ends.
type expiryWarning struct {
	log    *slog.Logger
	warned time.Time
}

func (w *expiryWarning) check(end, now time.Time) {
	if end.IsZero() || end.Sub(now) > warnWithin || !w.warned.IsZero() && now.Sub(w.warned) < warnEvery {
		return
	}
	w.warned = now
	if now.After(end) {
		w.log.Error("the certificate of this server has expired", "notAfter", end.UTC().Format(time.RFC3339))
		return
	}
	w.log.Warn("the certificate of this server expires soon", "notAfter", end.UTC().Format(time.RFC3339))
}
