package jose

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
)

const (
	EdDSA = "EdDSA" // alg of an Ed25519 key
	ES256 = "ES256" // alg of a P-256 key

	SignatureSize = 64 // bytes, of both algorithms

	// ed25519Alg is the name of EdDSA with an Ed25519 key in RFC 9864.
	ed25519Alg = "Ed25519"

	maxJWK = 4096
	size   = 32 // bytes of a coordinate and of a private key
)

// Key is a public key that an agent may sign with. It is immutable and safe for concurrent use.
type Key struct {
	Thumbprint string // RFC 7638 with SHA-256, base64url without padding
	Algorithm  string // EdDSA or ES256

	public crypto.PublicKey // ed25519.PublicKey or *ecdsa.PublicKey
	jwk    string
}

// ParseKey reads the JWK of a public key. Its errors read well after the word jwk and contain
// nothing of it.
func ParseKey(jwk []byte) (*Key, error) {
	m, err := readMembers(jwk)
	if err != nil {
		return nil, err
	}
	if m.d != nil || m.private {
		return nil, errors.New("has members of a private or secret key; send the public key alone, and replace " +
			"this key if anybody else may have seen it")
	}
	return m.key("verify")
}

// NewKey describes an ed25519.PublicKey or an *ecdsa.PublicKey of P-256, such as the public half of
// a key in a TPM or a KMS. It refuses what [ParseKey] refuses.
func NewKey(public crypto.PublicKey) (*Key, error) {
	switch public := public.(type) {
	case ed25519.PublicKey:
		return newEd25519(public)
	case *ecdsa.PublicKey:
		if public == nil || public.Curve != elliptic.P256() {
			break
		}
		point, err := public.Bytes()
		if err != nil {
			return nil, errors.New("is no point on P-256")
		}
		return newP256(point)
	}
	return nil, errors.New("is of no kind that agents use: Ed25519 or P-256")
}

func newEd25519(x []byte) (*Key, error) {
	if len(x) != size {
		return nil, errors.New("x must be 32 bytes")
	}
	// The standard library refuses what is not on the curve only when it verifies, and never the
	// other two.
	point, err := new(edwards25519.Point).SetBytes(x)
	if err != nil || string(point.Bytes()) != string(x) {
		return nil, errors.New("x is not the encoding of a point on Ed25519")
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return nil, errors.New("x is a point of small order, for which everybody can sign")
	}
	public := append(ed25519.PublicKey(nil), x...)
	return describe(EdDSA, public, fmt.Sprintf(`{"crv":"Ed25519","kty":"OKP","x":"%s"}`, base64url.EncodeToString(x)))
}

// newP256 takes an uncompressed point: 4, x, y.
func newP256(point []byte) (*Key, error) {
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return nil, errors.New("x and y are no point on P-256")
	}
	return describe(ES256, public, fmt.Sprintf(`{"crv":"P-256","kty":"EC","x":"%s","y":"%s"}`,
		base64url.EncodeToString(point[1:1+size]), base64url.EncodeToString(point[1+size:])))
}

func describe(algorithm string, public crypto.PublicKey, jwk string) (*Key, error) {
	sum, err := (&josev4.JSONWebKey{Key: public}).Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, errors.New("has no thumbprint")
	}
	return &Key{Thumbprint: base64url.EncodeToString(sum), Algorithm: algorithm, public: public, jwk: jwk}, nil
}

// JWK is the one form in which a key is stored and published: its required members alone, in the
// order and the spelling over which the thumbprint is computed.
func (k *Key) JWK() string { return k.jwk }

// MarshalJSON writes the JWK.
func (k *Key) MarshalJSON() ([]byte, error) { return []byte(k.jwk), nil }

// Verify returns nil if t is signed by k, and [ErrSignature] otherwise. It costs one verification.
func (k *Key) Verify(t Token) error {
	if !k.accepts(t.Header.Algorithm) || len(t.Signature) != SignatureSize {
		return ErrSignature
	}
	var err error
	if k.Algorithm == EdDSA {
		err = jwt.SigningMethodEdDSA.Verify(t.Signed, t.Signature, k.public)
	} else {
		err = jwt.SigningMethodES256.Verify(t.Signed, t.Signature, k.public)
	}
	if err != nil {
		return ErrSignature
	}
	return nil
}

// accepts reports whether algorithm is a name of the algorithm of k.
func (k *Key) accepts(algorithm string) bool {
	return algorithm == k.Algorithm || algorithm == ed25519Alg && k.Algorithm == EdDSA
}

// IsThumbprint reports whether s has the form of a thumbprint.
func IsThumbprint(s string) bool {
	b, ok := decode(s)
	return ok && len(b) == crypto.SHA256.Size()
}
