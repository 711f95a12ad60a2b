package jose

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"filippo.io/edwards25519"
	josev4 "github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"

	"attestd/crypto/strictjson"
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

// members are those of a JWK that are read, as they are spelt; nil where absent.
type members struct {
	kty, crv, x, y, d []byte
	alg, use, ops     []byte
	private           bool // it has members of another kind of private or secret key
	other             bool // it has public members of another kind of key
}

// readMembers never says what it read: the errors of the parser hold text, which may be secret.
func readMembers(jwk []byte) (members, error) {
	var m members
	if len(jwk) > maxJWK {
		return m, errors.New("is longer than 4096 bytes")
	}
	err := strictjson.EachMember(jwk, maxDepth, func(name, value []byte) {
		switch string(name) {
		case "kty":
			m.kty = value
		case "crv":
			m.crv = value
		case "x":
			m.x = value
		case "y":
			m.y = value
		case "alg":
			m.alg = value
		case "use":
			m.use = value
		case "key_ops":
			m.ops = value
		case "d":
			m.d = value
		case "p", "q", "dp", "dq", "qi", "oth", "k":
			m.private = true
		case "n", "e":
			m.other = true
		}
	})
	if err != nil {
		return m, errors.New("is not a JSON object without duplicate members")
	}
	return m, nil
}

// key makes the public key and checks what the JWK says about its use. operation is the member of
// key_ops that must be there.
func (m members) key(operation string) (*Key, error) {
	var k *Key
	kty, _ := strictjson.AsString(m.kty)
	crv, _ := strictjson.AsString(m.crv)
	x, okX := coordinate(m.x)
	y, okY := coordinate(m.y)
	var err error
	switch {
	case kty == "OKP" && crv == "Ed25519":
		if m.y != nil || m.other || m.private {
			return nil, errors.New("has members of another kind of key")
		}
		if !okX {
			return nil, errors.New("x must be 32 bytes in base64url without padding")
		}
		k, err = newEd25519(x)
	case kty == "EC" && crv == "P-256":
		if m.other || m.private {
			return nil, errors.New("has members of another kind of key")
		}
		if !okX || !okY {
			return nil, errors.New("x and y must be 32 bytes each in base64url without padding")
		}
		k, err = newP256(slices.Concat([]byte{4}, x, y))
	default:
		return nil, errors.New(`must be of kty "OKP" with crv "Ed25519", or of kty "EC" with crv "P-256"`)
	}
	if err != nil {
		return nil, err
	}
	return k, m.fits(k, operation)
}

// fits checks alg, use and key_ops where they are there.
func (m members) fits(k *Key, operation string) error {
	if alg, ok := strictjson.AsString(m.alg); m.alg != nil && (!ok || !k.accepts(alg)) {
		return errors.New("alg is not that of the key")
	}
	if use, ok := strictjson.AsString(m.use); m.use != nil && (!ok || use != "sig") {
		return errors.New(`use must be "sig"`)
	}
	if m.ops == nil {
		return nil
	}
	ops, ok := strictjson.AsStrings(m.ops)
	slices.Sort(ops)
	if !ok || !slices.Contains(ops, operation) || len(slices.Compact(slices.Clone(ops))) != len(ops) {
		return errors.New("key_ops must be distinct and include " + operation)
	}
	return nil
}

// coordinate reads 32 bytes in base64url.
func coordinate(value []byte) ([]byte, bool) {
	text, ok := strictjson.AsString(value)
	if !ok {
		return nil, false
	}
	b, ok := decode(text)
	return b, ok && len(b) == size
}

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
	stated, err := m.key("sign")
	if err != nil {
		return nil, err
	}
	d, ok := coordinate(m.d)
	if !ok {
		return nil, errors.New("d must be 32 bytes in base64url without padding")
	}
	var p *PrivateKey
	if stated.Algorithm == EdDSA {
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
	if p.public.Thumbprint != stated.Thumbprint {
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

// JWK returns the private form, one line that ends in a newline. Its reader can sign as the agent:
// a file with it MUST be readable by its owner alone (0600).
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
