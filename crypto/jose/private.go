package jose

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/golang-jwt/jwt/v5"
)

// PrivateKey is a key pair in memory. It is immutable and safe for concurrent use. What prints it
// prints the thumbprint, and it cannot be marshaled; [PrivateKey.JWK] alone discloses the secret.
type PrivateKey struct {
	public *Key
	secret func() secret // fmt prints no function, also where Format is out of its reach
}

// secret has one of the two.
type secret struct {
	ed25519 ed25519.PrivateKey
	p256    *ecdsa.PrivateKey
}

// GenerateKey makes a key pair for an algorithm, EdDSA or ES256.
func GenerateKey(algorithm string) (*PrivateKey, error) {
	switch algorithm {
	case EdDSA:
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		return newPrivate(secret{ed25519: private})
	case ES256:
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return newPrivate(secret{p256: private})
	}
	return nil, errors.New("the algorithm of a key must be EdDSA or ES256")
}

// ParsePrivateKey reads the JWK of a private key, as [PrivateKey.JWK] or another library writes it.
// Its errors read well after the word key and contain nothing of it.
func ParsePrivateKey(jwk []byte) (*PrivateKey, error) {
	m, err := readMembers(jwk)
	if err != nil {
		return nil, err
	}
	if m.d == nil {
		return nil, errors.New("has no member d: it is no private key")
	}
	said, err := m.key("sign")
	if err != nil {
		return nil, err
	}
	d, ok := coordinate(m.d)
	if !ok {
		return nil, errors.New("d must be 32 bytes in base64url without padding")
	}
	var p *PrivateKey
	if said.Algorithm == EdDSA {
		p, err = newPrivate(secret{ed25519: ed25519.NewKeyFromSeed(d)})
	} else {
		private, parseErr := ecdsa.ParseRawPrivateKey(elliptic.P256(), d)
		if parseErr != nil {
			return nil, errors.New("d is no private key of P-256")
		}
		p, err = newPrivate(secret{p256: private})
	}
	if err != nil {
		return nil, err
	}
	if p.public.Thumbprint != said.Thumbprint {
		return nil, errors.New("has public members that are not those of d")
	}
	return p, nil
}

func newPrivate(s secret) (*PrivateKey, error) {
	p := &PrivateKey{secret: func() secret { return s }}
	var err error
	if s.ed25519 != nil {
		p.public, err = NewKey(s.ed25519.Public())
	} else {
		p.public, err = NewKey(&s.p256.PublicKey)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// JWK returns the private form, one line that ends in a newline. Whoever reads it can sign as the
// agent: a file with it MUST be readable by its owner alone (0600).
func (p *PrivateKey) JWK() []byte {
	var d []byte
	if p.secret().ed25519 != nil {
		d = p.secret().ed25519.Seed()
	} else {
		var err error
		if d, err = p.secret().p256.Bytes(); err != nil {
			panic("jose: " + err.Error()) // a PrivateKey is valid once it is made
		}
	}
	public := p.public.jwk
	return fmt.Appendf(nil, `%s,"alg":"%s","kid":"%s","d":"%s"}`+"\n",
		public[:len(public)-1], p.public.Algorithm, p.public.Thumbprint, base64url.EncodeToString(d))
}

// Key is the public key.
func (p *PrivateKey) Key() *Key { return p.public }

// Sign implements [Signer]. It does not wait, so it ignores ctx.
func (p *PrivateKey) Sign(_ context.Context, input string) ([]byte, error) {
	if p.secret().ed25519 != nil {
		return jwt.SigningMethodEdDSA.Sign(input, p.secret().ed25519)
	}
	return jwt.SigningMethodES256.Sign(input, p.secret().p256)
}

// Format prints the thumbprint, whatever the verb. Its receiver is no pointer, so that a copy of a
// key is not printed either.
func (p PrivateKey) Format(f fmt.State, _ rune) {
	if p.public != nil {
		fmt.Fprint(f, "private key ", p.public.Thumbprint)
	}
}

// MarshalJSON refuses: no secret gets into a log or an answer by being a part of it.
func (p PrivateKey) MarshalJSON() ([]byte, error) {
	return nil, errors.New("jose: a private key is not marshaled")
}
