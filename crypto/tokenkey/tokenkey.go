// Package tokenkey has the keys with which a company signs tokens for other services: clouds, MCP
// servers, SPIFFE and OAuth software. It has no clock and does no I/O.
//
//	ES256 (RFC 7518 §3.4)   P-256
//	RS256 (RFC 7518 §3.3)   RSA of 2048 bits, with the exponent 65537
//	EdDSA (RFC 8037 §3.1)   Ed25519
//
// A key signs with one algorithm and is named by its thumbprint (RFC 7638): SHA-256 over the
// required members of its JWK, base64url without padding, 43 characters. It is no key of an agent
// (package jose), and none that signs records.
package tokenkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

const (
	ES256 = jose.ES256
	RS256 = "RS256"
	EdDSA = jose.EdDSA

	rsaBits     = 2048
	rsaExponent = 65537
)

// Algorithms are those that a key may have, the default first.
var Algorithms = []string{ES256, RS256, EdDSA}

// Public is a public key. It is immutable and safe for concurrent use.
type Public struct {
	KID       string // RFC 7638 with SHA-256, base64url without padding
	Algorithm string

	jwk string
	ec  *jose.Key // of ES256 and EdDSA
	rsa *rsa.PublicKey
}

// ParsePublic reads a JWK in the form that [Public.JWK] returns, and no other.
func ParsePublic(algorithm, jwk string) (*Public, error) {
	if algorithm == RS256 {
		return parseRSA(jwk)
	}
	k, err := jose.ParseKey([]byte(jwk))
	if err != nil {
		return nil, fmt.Errorf("the jwk %w", err)
	}
	if k.Algorithm != algorithm || k.JWK() != jwk {
		return nil, fmt.Errorf("the jwk is of no key for %q in the form of RFC 7638", algorithm)
	}
	return ofCurve(k), nil
}

func parseRSA(jwk string) (*Public, error) {
	var m struct{ N string }
	if err := json.Unmarshal([]byte(jwk), &m); err != nil {
		return nil, errors.New("the jwk is not a JSON object")
	}
	n, err := base64.RawURLEncoding.Strict().DecodeString(m.N)
	if err != nil {
		return nil, errors.New("n must be base64url without padding")
	}
	p, err := ofRSA(&rsa.PublicKey{N: new(big.Int).SetBytes(n), E: rsaExponent})
	if err == nil && p.jwk != jwk {
		err = errors.New("the jwk is not in the form of RFC 7638, with the exponent 65537")
	}
	return p, err
}

func ofCurve(k *jose.Key) *Public {
	return &Public{KID: k.Thumbprint, Algorithm: k.Algorithm, jwk: k.JWK(), ec: k}
}

func ofRSA(k *rsa.PublicKey) (*Public, error) {
	if k.N.BitLen() != rsaBits || k.E != rsaExponent {
		return nil, fmt.Errorf("an RSA key must have %d bits, and the exponent %d", rsaBits, rsaExponent)
	}
	jwk := fmt.Sprintf(`{"e":"AQAB","kty":"RSA","n":"%s"}`, base64.RawURLEncoding.EncodeToString(k.N.Bytes()))
	sum := sha256.Sum256([]byte(jwk))
	return &Public{KID: base64.RawURLEncoding.EncodeToString(sum[:]), Algorithm: RS256, jwk: jwk, rsa: k}, nil
}

// JWK is the form in which a key is stored: the members that its thumbprint is computed over.
func (p *Public) JWK() string { return p.jwk }

// Published is the JWK as a key set has it: with kid, alg and use, which is "sig" in a JWK set and
// "jwt-svid" in a SPIFFE bundle.
func (p *Public) Published(use string) json.RawMessage {
	return json.RawMessage(p.jwk[:len(p.jwk)-1] + `,"kid":"` + p.KID + `","alg":"` + p.Algorithm + `","use":"` + use + `"}`)
}

// Verify returns nil if t is signed by p, and [jose.ErrSignature] otherwise.
func (p *Public) Verify(t jose.Token) error {
	switch {
	case t.Header.Algorithm != p.Algorithm: // the other name of EdDSA is in none of our tokens
		return jose.ErrSignature
	case p.ec != nil:
		return p.ec.Verify(t)
	case jwt.SigningMethodRS256.Verify(t.Signed, t.Signature, p.rsa) != nil:
		return jose.ErrSignature
	}
	return nil
}

// Private is a key pair. It is immutable and safe for concurrent use. What prints it prints the
// name of the key, and it cannot be marshaled; [Private.PKCS8] alone discloses the secret.
type Private struct {
	public *Public
	secret func() crypto.Signer // fmt prints no function
	method jwt.SigningMethod
}

// Generate makes a key pair for an algorithm. One of RS256 takes 100 ms or more of a processor.
func Generate(algorithm string) (*Private, error) {
	switch algorithm {
	case ES256:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return newPrivate(k)
	case RS256:
		k, err := rsa.GenerateKey(rand.Reader, rsaBits)
		if err != nil {
			return nil, err
		}
		return newPrivate(k)
	case EdDSA:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		return newPrivate(k)
	}
	return nil, fmt.Errorf("there is no key for the algorithm %q", algorithm)
}

// ParsePrivate reads what [Private.PKCS8] returns. Its errors contain nothing of it.
func ParsePrivate(der []byte) (*Private, error) {
	k, err := x509.ParsePKCS8PrivateKey(der)
	signer, is := k.(crypto.Signer)
	if err != nil || !is {
		return nil, errors.New("the private key is not in the form of PKCS #8")
	}
	return newPrivate(signer)
}

func newPrivate(k crypto.Signer) (*Private, error) {
	p := &Private{secret: func() crypto.Signer { return k }}
	if k, is := k.(*rsa.PrivateKey); is {
		public, err := ofRSA(&k.PublicKey)
		p.public, p.method = public, jwt.SigningMethodRS256
		return p, err
	}
	public, err := jose.NewKey(k.Public())
	if err != nil {
		return nil, fmt.Errorf("the private key %w", err)
	}
	p.public, p.method = ofCurve(public), jwt.SigningMethodES256
	if public.Algorithm == EdDSA {
		p.method = jwt.SigningMethodEdDSA
	}
	return p, nil
}

// PKCS8 returns the private form (RFC 5208). Its reader can sign as the company.
func (p *Private) PKCS8() ([]byte, error) { return x509.MarshalPKCS8PrivateKey(p.secret()) }

// Public is the public key.
func (p *Private) Public() *Public { return p.public }

// Sign makes a compact JWS with the header {"alg","kid","typ"}. claims is the text of the payload.
func (p *Private) Sign(typ string, claims []byte) (string, error) {
	header := jcs.AppendString([]byte(`{"alg":`), p.public.Algorithm)
	header = jcs.AppendString(append(header, `,"kid":`...), p.public.KID)
	header = append(jcs.AppendString(append(header, `,"typ":`...), typ), '}')
	buf := base64.RawURLEncoding.AppendEncode(nil, header)
	buf = base64.RawURLEncoding.AppendEncode(append(buf, '.'), claims)
	signature, err := p.method.Sign(string(buf), p.secret())
	if err != nil {
		return "", fmt.Errorf("sign with token key %s: %w", p.public.KID, err)
	}
	return string(base64.RawURLEncoding.AppendEncode(append(buf, '.'), signature)), nil
}

// Format prints the name of the key, whatever the verb. Its receiver is no pointer, so that a copy
// of a key is not printed either.
func (p Private) Format(f fmt.State, _ rune) {
	if p.public != nil {
		fmt.Fprint(f, "token key ", p.public.KID)
	}
}

// MarshalJSON refuses: no secret gets into a log or an answer by being a part of it.
func (p Private) MarshalJSON() ([]byte, error) {
	return nil, errors.New("tokenkey: a private key is not marshaled")
}

// Set is a set of public keys as verifiers fetch it. It is immutable and safe for concurrent use.
type Set struct {
	Changed time.Time // when it has last changed; zero for never

	jwks, bundle func() []byte
}

// NewSet returns a set. Each of its texts is made when it is first asked for.
func NewSet(keys []*Public, changed time.Time) *Set {
	return &Set{changed, sync.OnceValue(func() []byte { return jwkSet(keys) }), sync.OnceValue(func() []byte { return bundle(keys, changed) })}
}

// JWKS is the JWK set (RFC 7517 §5). It MUST NOT be modified.
func (s *Set) JWKS() []byte { return s.jwks() }

// Bundle is the SPIFFE bundle (SPIFFE Trust Domain and Bundle §4): the keys whose algorithms a
// JWT-SVID may have, with the time of the last change as its sequence. It MUST NOT be modified.
func (s *Set) Bundle() []byte { return s.bundle() }

func jwkSet(keys []*Public) []byte { return append(appendKeys(nil, keys, "sig"), '}') }

// refreshHint is how often a reader of a bundle fetches it, in seconds.
const refreshHint = 300

func bundle(keys []*Public, changed time.Time) []byte {
	var signing []*Public
	for _, k := range keys {
		if k.Algorithm != EdDSA {
			signing = append(signing, k)
		}
	}
	sequence := int64(0)
	if !changed.IsZero() {
		sequence = changed.UnixMilli()
	}
	return fmt.Appendf(appendKeys(nil, signing, "jwt-svid"), `,"spiffe_sequence":%d,"spiffe_refresh_hint":%d}`, sequence, refreshHint)
}

func appendKeys(text []byte, keys []*Public, use string) []byte {
	text = append(text, `{"keys":[`...)
	for i, k := range keys {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, k.Published(use)...)
	}
	return append(text, ']')
}
