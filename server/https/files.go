package https

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// Files is a certificate with its private key in two files of PEM.
type Files struct {
	pair reloaded[tls.Certificate]
	log  *slog.Logger
}

// maxFile bounds what is read of a file: a chain of certificates has a few KB.
const maxFile = 1 << 20

// OpenFiles reads a certificate, with those of its intermediates behind it, and its key. readKey
// reads the file of the key, and refuses one that others can read, change or replace. Both are read
// again that often.
func OpenFiles(cert, key string, readKey func(path string) ([]byte, error), every time.Duration, log *slog.Logger) (*Files, error) {
	f := &Files{log: log}
	f.pair = reloaded[tls.Certificate]{what: "the certificate in " + cert, every: every, log: log, read: func() (content []byte, pair tls.Certificate, err error) {
		certPEM, err := readFile(cert)
		var keyPEM []byte
		if err == nil && bytes.Contains(certPEM, []byte(" PRIVATE KEY-----")) && !bytes.Contains(certPEM, []byte("-----BEGIN CERTIFICATE-----")) {
			err = errors.New("the first has a key and no certificate; are both exchanged?")
		}
		if err == nil {
			keyPEM, err = readKey(key)
		}
		if err == nil {
			pair, err = tls.X509KeyPair(certPEM, keyPEM)
		}
		if now := time.Now(); err == nil && now.After(pair.Leaf.NotAfter) && f.validAt(now) {
			err = fmt.Errorf("it has expired at %s, and the one in use has not", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		content = bytes.Join([][]byte{certPEM, keyPEM}, []byte{0})
		if err != nil {
			err = fmt.Errorf("certificate %s and key %s: %w", cert, key, err)
			content = append(content, err.Error()...)
		}
		return content, pair, err
	}}
	if err := f.pair.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Files) validAt(now time.Time) bool {
	current := f.pair.value.Load()
	return current != nil && now.Before(current.Leaf.NotAfter)
}

// readFile reads a file that holds no secret.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

// GetCertificate is for tls.Config. Open connections continue with the certificate with which they
// began.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.pair.value.Load(), nil
}

// VerifyHostname returns an error unless the certificate is for a host.
func (f *Files) VerifyHostname(host string) error {
	return f.pair.value.Load().Leaf.VerifyHostname(host)
}

// Protocols are those of ALPN that it needs.
func (f *Files) Protocols() []string { return nil }

// Run reads the files again until ctx is done.
func (f *Files) Run(ctx context.Context) error {
	warning := expiryWarning{log: f.log}
	return f.pair.run(ctx, func(now time.Time, _ bool) { warning.check(f.pair.value.Load().Leaf.NotAfter, now) })
}

// Status may be called at any time.
func (f *Files) Status() Status {
	at, failedAt, err := f.pair.state()
	leaf := f.pair.value.Load().Leaf
	s := Status{Names: leaf.DNSNames, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter, Loaded: at, LastErrorAt: failedAt}
	if err != nil {
		s.LastError = err.Error()
	}
	return s
}
