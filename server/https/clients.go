package https

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"attestd/internal/bounded"

	"golang.org/x/crypto/cryptobyte"
	"golang.org/x/crypto/cryptobyte/asn1"
)

// ClientCAs are the CAs whose certificates say who a client is, in a file of PEM that is read again
// when it changes.
type ClientCAs struct {
	roots reloaded[cas]

	mu    sync.Mutex
	known *bounded.Map[[sha256.Size]byte, verified]
}

type cas struct {
	pool        *x509.CertPool
	fingerprint string
}

// SVID is the identity in a client certificate that was verified.
type SVID struct {
	ID      string    // the SPIFFE ID, its only URI
	Expires time.Time // when the first certificate of its chain does
}

// Refused says why a client certificate does not count. It holds nothing that the client wrote.
type Refused struct{ why string }

func (e *Refused) Error() string { return "the client certificate " + e.why }

// verified is what was found of the certificates that a client has sent: for how long they count,
// or why they do not.
type verified struct {
	roots       *x509.CertPool // by which
	svid        SVID
	begins      time.Time
	err         error
	refusedTill time.Time
}

// The bounds on what is remembered. A refusal is remembered for as long as a client waits that
// tries again.
const (
	maxKnown   = 10_000
	refusedFor = 10 * time.Second
)

// OpenClientCAs reads the file for the first time, and then that often. read refuses a file that
// others can change or replace: they could add a CA, and be any agent.
func OpenClientCAs(path string, read func(path string) ([]byte, error), every time.Duration, log *slog.Logger) (*ClientCAs, error) {
	c := &ClientCAs{known: bounded.NewMap[[sha256.Size]byte, verified](maxKnown)}
	c.roots = reloaded[cas]{what: "the file of client CAs " + path, every: every, log: log, read: func() ([]byte, cas, error) {
		text, err := read(path)
		var pool *x509.CertPool
		if err == nil {
			pool, err = parseCAs(text)
		}
		if err != nil {
			err = fmt.Errorf("client CAs %s: %w", path, err)
			text = append(text, err.Error()...)
		}
		sum := sha256.Sum256(text)
		return text, cas{pool, hex.EncodeToString(sum[:8])}, err
	}}
	if err := c.roots.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// parseCAs reads certificates of CAs. Anything else in the file is refused, so that no operator
// trusts a certificate of a server by mistake.
func parseCAs(text []byte) (*x509.CertPool, error) {
	pool, found := x509.NewCertPool(), false
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		cert, err := x509.ParseCertificate(block.Bytes)
		switch {
		case block.Type != "CERTIFICATE":
			return nil, errors.New("it holds something that is no certificate")
		case err != nil:
			return nil, err
		case !cert.IsCA:
			return nil, fmt.Errorf("it holds a certificate that is no CA's, serial number %x", cert.SerialNumber)
		}
		pool.AddCert(cert)
		found = true
	}
	if !found {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return pool, nil
}

func (c *ClientCAs) pool() *x509.CertPool { return c.roots.value.Load().pool }

// Run reads the file again until ctx is done, and calls changed after other CAs came into use.
func (c *ClientCAs) Run(ctx context.Context, changed func()) error {
	return c.roots.run(ctx, func(_ time.Time, is bool) {
		if is {
			changed()
		}
	})
}

// Fingerprint identifies the CAs: the beginning of the SHA-256 of the file.
func (c *ClientCAs) Fingerprint() string { return c.roots.value.Load().fingerprint }

// Identify verifies the certificate of a connection at a time, and returns whose it is; nil without
// a certificate. An error is a *Refused. Connections live long, so each request asks: a certificate
// that has expired meanwhile counts no more, nor one of a CA that was removed from the file.
func (c *ClientCAs) Identify(state *tls.ConnectionState, now time.Time) (*SVID, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, nil
	}
	h := sha256.New()
	for _, cert := range state.PeerCertificates {
		sum := sha256.Sum256(cert.Raw)
		h.Write(sum[:])
	}
	name := [sha256.Size]byte(h.Sum(nil))
	roots := c.pool()
	c.mu.Lock()
	found, ok := c.known.Get(name)
	c.mu.Unlock()
	if !ok || found.roots != roots || found.err != nil && !now.Before(found.refusedTill) {
		found = verify(state.PeerCertificates, roots, now)
		c.mu.Lock()
		c.known.Put(name, found)
		c.mu.Unlock()
	}
	switch {
	case found.err != nil:
		return nil, found.err
	case now.Before(found.begins) || !now.Before(found.svid.Expires):
		return nil, &Refused{"has expired, or is not valid yet"}
	}
	return &found.svid, nil
}

// verify checks a client certificate by RFC 5280 and by the rules of X.509-SVIDs (SPIFFE X.509-SVID
// §4, §5).
func verify(certs []*x509.Certificate, roots *x509.CertPool, now time.Time) verified {
	v := verified{roots: roots, refusedTill: now.Add(refusedFor)}
	refuse := func(why string) verified {
		v.err = &Refused{why}
		return v
	}
	leaf := certs[0]
	intermediates := x509.NewCertPool()
	for _, cert := range certs[1:] {
		intermediates.AddCert(cert)
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return refuse("has expired, or is not valid yet")
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return refuse("is not for client authentication (clientAuth)")
	case err != nil:
		return refuse("is of no CA that this server trusts")
	case !namesClientAuth(leaf): // one without the extension would be for everything
		return refuse("is not for client authentication (clientAuth)")
	case leaf.IsCA || leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		return refuse("is a CA's, or its key is not for digital signatures alone")
	}
	uris, ok := urisOf(leaf)
	if !ok || len(uris) != 1 {
		return refuse("must name exactly one URI, its SPIFFE ID")
	}
	v.svid.ID = uris[0]
	for _, chain := range chains { // the one that counts longest
		begins, ends := chain[0].NotBefore, chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotBefore.After(begins) {
				begins = cert.NotBefore
			}
			if cert.NotAfter.Before(ends) {
				ends = cert.NotAfter
			}
		}
		if ends.After(v.svid.Expires) {
			v.begins, v.svid.Expires = begins, ends
		}
	}
	return v
}

func namesClientAuth(cert *x509.Certificate) bool {
	for _, usage := range cert.ExtKeyUsage {
		if usage == x509.ExtKeyUsageClientAuth {
			return true
		}
	}
	return false
}

// urisOf returns the URIs among the names of a certificate as they are spelt. x509.Certificate has
// them parsed, in which different spellings become one.
func urisOf(cert *x509.Certificate) (uris []string, ok bool) {
	const uniformResourceIdentifier = 6 // RFC 5280 §4.2.1.6
	for _, e := range cert.Extensions {
		if e.Id.String() != "2.5.29.17" {
			continue
		}
		names := cryptobyte.String(e.Value)
		if !names.ReadASN1(&names, asn1.SEQUENCE) {
			return nil, false
		}
		for !names.Empty() {
			var name cryptobyte.String
			var tag asn1.Tag
			if !names.ReadAnyASN1(&name, &tag) {
				return nil, false
			}
			if tag == asn1.Tag(uniformResourceIdentifier).ContextSpecific() {
				uris = append(uris, string(name))
			}
		}
	}
	return uris, true
}
