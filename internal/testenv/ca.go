package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"
)

// CA is a certificate authority for tests.
type CA struct {
	Cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	chain []byte // PEM of the intermediates from this CA on, without the root
}

// NewCA returns a CA whose own certificate is self-signed.
func NewCA(t testing.TB) *CA {
	t.Helper()
	template := caTemplate("root")
	key := newKey(t)
	return &CA{Cert: signed(t, template, template, &key.PublicKey, key), key: key}
}

// Intermediate returns a CA that this one has signed.
func (ca *CA) Intermediate(t testing.TB) *CA {
	t.Helper()
	key := newKey(t)
	cert := signed(t, caTemplate("intermediate"), ca.Cert, &key.PublicKey, ca.key)
	return &CA{Cert: cert, key: key, chain: append(pemOf("CERTIFICATE", cert.Raw), ca.chain...)}
}

// PEM is the CA's certificate.
func (ca *CA) PEM() []byte { return pemOf("CERTIFICATE", ca.Cert.Raw) }

// Pool trusts this CA alone.
func (ca *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(ca.Cert)
	return pool
}

// Server returns a certificate, with its intermediates, and the key of a server on loopback.
func (ca *CA) Server(t testing.TB, change ...func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	template := leafTemplate(x509.ExtKeyUsageServerAuth)
	template.DNSNames, template.IPAddresses = []string{"localhost", "attest.example.com"},
		[]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return ca.leaf(t, template, change)
}

// Client returns the certificate and the key of a client with a SPIFFE ID.
func (ca *CA) Client(t testing.TB, id string, change ...func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	return ca.leaf(t, clientTemplate(t, id), change)
}

// ClientPair is Client as crypto/tls takes it.
func (ca *CA) ClientPair(t testing.TB, id string, change ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Client(t, id, change...))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func (ca *CA) leaf(t testing.TB, template *x509.Certificate, change []func(*x509.Certificate)) (cert, key []byte) {
	t.Helper()
	for _, f := range change {
		f(template)
	}
	private := newKey(t)
	leaf := signed(t, template, ca.Cert, &private.PublicKey, ca.key)
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return append(pemOf("CERTIFICATE", leaf.Raw), ca.chain...), pemOf("PRIVATE KEY", raw)
}

func caTemplate(name string) *x509.Certificate {
	c := leafTemplate()
	c.Subject = pkix.Name{CommonName: name}
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	return c
}

func leafTemplate(usage ...x509.ExtKeyUsage) *x509.Certificate {
	now := time.Now()
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	return &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(90 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage,
	}
}

func clientTemplate(t testing.TB, id string) *x509.Certificate {
	t.Helper()
	template := leafTemplate(x509.ExtKeyUsageClientAuth)
	uri, err := url.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	template.URIs = []*url.URL{uri}
	return template
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signed(t testing.TB, template, parent *x509.Certificate, public any, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pemOf(kind string, raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})
}

// SelfSigned returns a self-signed certificate of a client.
func SelfSigned(t testing.TB, id string) tls.Certificate {
	t.Helper()
	template := clientTemplate(t, id)
	key := newKey(t)
	return tls.Certificate{Certificate: [][]byte{signed(t, template, template, &key.PublicKey, key).Raw},
		PrivateKey: key}
}
