package tokenkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/jcs"
	"attestd/crypto/jose"
)

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

// PKCS8 returns the private form (RFC 5208). Whoever reads it can sign as the company.
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
