package https

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"attestd/internal/sleep"
)

// ACMEOptions say where certificates come from.
type ACMEOptions struct {
	Domains   []string // lower case; clients that name none get the certificate of the first
	Cache     string   // folder of the account's key and the certificates with their keys
	Directory string   // URL of the CA's directory; "" is Let's Encrypt's
	Roots     *x509.CertPool
	Email     string // to which the CA writes, or ""
	UserAgent string
	Log       *slog.Logger
}

// ACME gets certificates from a CA and renews them. No handshake waits for the CA: until there is
// a certificate, handshakes fail.
type ACME struct {
	ACMEOptions
	manager *autocert.Manager
	calls   *cancelable

	mu      sync.Mutex
	current map[string]*tls.Certificate // by domain
	status  Status
}

// How long it takes until a CA is asked again that has given no certificate. CAs count failures:
// Let's Encrypt lets 5 happen in an hour for each name.
const (
	retryFirst = 2 * time.Minute
	retryMost  = time.Hour
	lookEvery  = 10 * time.Minute // whether a certificate was renewed
	callFor    = 30 * time.Second
	renewWhen  = 30 * 24 * time.Hour
)

// NewACME sends no request yet.
func NewACME(o ACMEOptions) *ACME {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}
	calls := &cancelable{inner: transport, ended: make(chan struct{})}
	client := &acme.Client{DirectoryURL: o.Directory, UserAgent: o.UserAgent,
		HTTPClient: &http.Client{Transport: calls, Timeout: callFor}}
	if client.DirectoryURL == "" {
		client.DirectoryURL = acme.LetsEncryptURL
	}
	return &ACME{
		ACMEOptions: o, calls: calls, current: make(map[string]*tls.Certificate),
		manager: &autocert.Manager{
			Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(o.Cache), HostPolicy: autocert.HostWhitelist(o.Domains...),
			RenewBefore: renewWhen, Client: client, Email: o.Email,
		},
	}
}

// Protocols are those of ALPN that it needs: challenges come as handshakes (RFC 8737).
func (a *ACME) Protocols() []string { return []string{acme.ALPNProto} }

// HTTPChallenges answers challenges by HTTP (RFC 8555 §8.3), and everything else by other.
func (a *ACME) HTTPChallenges(other http.Handler) http.Handler {
	challenges := a.manager.HTTPHandler(http.NotFoundHandler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
			other.ServeHTTP(w, r)
			return
		}
		// the library compares the host with the domains, and a private CA may use a port
		asked := *r
		if name, _, err := net.SplitHostPort(r.Host); err == nil {
			asked.Host = name
		}
		challenges.ServeHTTP(w, &asked)
	})
}

var errNoCertificate = errors.New("there is no certificate for this name, or not yet")

// GetCertificate is for tls.Config.
func (a *ACME) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto {
		return a.manager.GetCertificate(hello)
	}
	name := strings.TrimSuffix(strings.ToLower(hello.ServerName), ".")
	if name == "" {
		name = a.Domains[0]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cert := a.current[name]; cert != nil {
		return cert, nil
	}
	return nil, errNoCertificate
}

// Run gets and renews the certificates until ctx is done.
func (a *ACME) Run(ctx context.Context) error {
	defer a.calls.end()
	warning := expiryWarning{log: a.Log}
	for retry := retryFirst; ; {
		wait := lookEvery
		if err := a.get(ctx); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			wait, retry = retry, min(2*retry, retryMost)
			a.Log.Error("no certificate from the CA; the server asks again", "error", err, "after", wait.String())
		} else {
			retry = retryFirst
		}
		warning.check(a.Status().NotAfter, time.Now())
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
	}
}

// get asks for the certificate of each domain, of which those that are there come from memory.
func (a *ACME) get(ctx context.Context) error {
	for _, domain := range a.Domains {
		type answer struct {
			cert *tls.Certificate
			err  error
		}
		done := make(chan answer, 1)
		// The library takes no context. After a stop its next request fails, which ends the call.
		go func() {
			cert, err := a.manager.GetCertificate(&tls.ClientHelloInfo{
				ServerName: domain, SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256},
				SupportedCurves: []tls.CurveID{tls.CurveP256}, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
			})
			done <- answer{cert, err}
		}()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case got := <-done:
			if err := a.note(domain, got.cert, got.err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *ACME) note(domain string, cert *tls.Certificate, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("%s: %w", domain, err)
		a.status.LastError, a.status.LastErrorAt = err.Error(), time.Now()
		return err
	}
	if a.current[domain] == nil || a.current[domain].Leaf.NotAfter != cert.Leaf.NotAfter {
		a.Log.Info("the certificate for a domain was taken into use", "domain", domain,
			"notAfter", cert.Leaf.NotAfter.UTC().Format(time.RFC3339))
		a.status.Loaded = time.Now()
	}
	a.current[domain] = cert
	a.status.LastError, a.status.LastErrorAt = "", time.Time{}
	return nil
}

// Status may be called at any time.
func (a *ACME) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.status
	s.Names = a.Domains
	for _, cert := range a.current {
		if s.NotAfter.IsZero() || cert.Leaf.NotAfter.Before(s.NotAfter) {
			s.NotBefore, s.NotAfter = cert.Leaf.NotBefore, cert.Leaf.NotAfter
		}
	}
	return s
}

// cancelable makes requests until it has ended, which breaks off those under way.
type cancelable struct {
	inner *http.Transport
	once  sync.Once
	ended chan struct{}
}

func (c *cancelable) end() {
	c.once.Do(func() { close(c.ended) })
	c.inner.CloseIdleConnections()
}

func (c *cancelable) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	select {
	case <-c.ended:
		cancel()
		return nil, context.Canceled
	default:
	}
	stopped := make(chan struct{})
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-stopped:
		}
	}()
	response, err := c.inner.RoundTrip(r.WithContext(ctx))
	close(stopped)
	if err != nil {
		cancel()
		return nil, err
	}
	// the client's context ends with the body or the time limit
	context.AfterFunc(r.Context(), cancel)
	return response, nil
}
