package passkey

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/big"

	"attestd/crypto/jose"
)

// The algorithms of passkeys, as COSE numbers them.
const (
	ES256 = -7
	EdDSA = -8
	RS256 = -257
)

// The canonical CBOR of the three COSE keys around their variable parts: the pairs of a map, in the
// order of CTAP2.
var (
	// kty EC2, alg ES256, crv P-256, x
	es256Head = []byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}
	es256Y    = []byte{0x22, 0x58, 0x20}
	// kty OKP, alg EdDSA, crv Ed25519, x
	eddsaHead = []byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20}
	// kty RSA, alg RS256, n with two bytes of length
	rs256Head = []byte{0xa4, 0x01, 0x03, 0x03, 0x39, 0x01, 0x00, 0x20, 0x59}
	rs256Tail = []byte{0x21, 0x43, 0x01, 0x00, 0x01} // e: 65537
)

const (
	coordinate = 32 // bytes
	// bytes of the modulus of an RSA key: 2,048 to 4,096 bits
	minModulus, maxModulus = 256, 512
)

// Key is the public key of a passkey. It is immutable and safe for concurrent use.
type Key struct {
	algorithm   int
	public      crypto.PublicKey
	cose        []byte
	fingerprint string
}

// ParseKey reads a COSE key in the canonical form. Its error says what is wrong and holds nothing
// of the key.
func ParseKey(cose []byte) (*Key, error) {
	switch {
	case bytes.HasPrefix(cose, es256Head):
		rest := cose[len(es256Head):]
		if len(rest) != 2*coordinate+len(es256Y) || !bytes.Equal(rest[coordinate:coordinate+len(es256Y)], es256Y) {
			return nil, errForm
		}
		point := append(append([]byte{4}, rest[:coordinate]...), rest[coordinate+len(es256Y):]...)
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		if err != nil {
			return nil, errors.New("x and y are no point on P-256")
		}
		return newKey(ES256, public, cose)
	case bytes.HasPrefix(cose, eddsaHead):
		x := cose[len(eddsaHead):]
		if _, err := jose.NewKey(ed25519.PublicKey(x)); err != nil {
			return nil, err
		}
		return newKey(EdDSA, ed25519.PublicKey(bytes.Clone(x)), cose)
	case bytes.HasPrefix(cose, rs256Head):
		return parseRSA(cose)
	}
	return nil, errForm
}

var errForm = errors.New("is no COSE key of ES256, EdDSA (Ed25519) or RS256 in canonical form")

func parseRSA(cose []byte) (*Key, error) {
	rest := cose[len(rs256Head):]
	if len(rest) < 2 {
		return nil, errForm
	}
	size := int(binary.BigEndian.Uint16(rest))
	n := rest[2:]
	if len(n) != size+len(rs256Tail) || !bytes.Equal(n[size:], rs256Tail) {
		return nil, errForm
	}
	n = n[:size]
	switch {
	case size < minModulus || size > maxModulus || n[0]&0x80 == 0:
		return nil, errors.New("has an RSA modulus of another length than 2048 to 4096 bits, in whole bytes")
	case n[size-1]&1 == 0:
		return nil, errors.New("has an even RSA modulus")
	}
	return newKey(RS256, &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: 65537}, cose)
}

func newKey(algorithm int, public crypto.PublicKey, cose []byte) (*Key, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, errForm
	}
	sum := sha256.Sum256(der)
	return &Key{algorithm, public, bytes.Clone(cose), "SHA256:" + base64.RawURLEncoding.EncodeToString(sum[:])}, nil
}

// NewKey describes an ed25519.PublicKey, an *ecdsa.PublicKey of P-256 or an *rsa.PublicKey with the
// exponent 65537. It refuses what [ParseKey] refuses.
func NewKey(public crypto.PublicKey) (*Key, error) {
	var cose []byte
	switch public := public.(type) {
	case *ecdsa.PublicKey:
		if public == nil || public.Curve != elliptic.P256() {
			return nil, errForm
		}
		point, err := public.Bytes()
		if err != nil {
			return nil, errors.New("x and y are no point on P-256")
		}
		cose = bytes.Join([][]byte{es256Head, point[1 : 1+coordinate], es256Y, point[1+coordinate:]}, nil)
	case ed25519.PublicKey:
		cose = append(bytes.Clone(eddsaHead), public...)
	case *rsa.PublicKey:
		if public == nil || public.E != 65537 || public.N.BitLen() > 8*maxModulus {
			return nil, errForm
		}
		n := public.N.Bytes()
		cose = bytes.Join([][]byte{rs256Head, binary.BigEndian.AppendUint16(nil, uint16(len(n))), n, rs256Tail}, nil)
	default:
		return nil, errForm
	}
	return ParseKey(cose)
}

// Algorithm returns [ES256], [EdDSA] or [RS256].
func (k *Key) Algorithm() int { return k.algorithm }

// Public returns the key as the standard library has it.
func (k *Key) Public() crypto.PublicKey { return k.public }

// COSE returns the canonical form. The caller MUST NOT change it.
func (k *Key) COSE() []byte { return k.cose }

// Fingerprint returns SHA256: and the base64url without padding of the SHA-256 of the key's SPKI in
// DER, as the keys of companies are named.
func (k *Key) Fingerprint() string { return k.fingerprint }
