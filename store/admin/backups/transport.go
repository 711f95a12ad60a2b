package backups

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"
)

// patience is how long a service may send nothing, or read nothing.
const patience = time.Minute

// newTransport returns a transport that leaves a service which hangs.
func newTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second}
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return impatient{c}, nil
		},
		TLSClientConfig:        &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    15 * time.Second,
		ResponseHeaderTimeout:  5 * time.Minute, // completing a large upload takes long
		IdleConnTimeout:        30 * time.Second,
		MaxIdleConnsPerHost:    2,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
}

// impatient is a connection on which no read and no write may take longer than patience, except
// waiting for a response.
type impatient struct{ net.Conn }

func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(5 * patience)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
