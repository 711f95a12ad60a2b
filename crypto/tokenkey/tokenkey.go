// Package tokenkey has the keys with which a company signs tokens for others: clouds, MCP servers,
// SPIFFE and OAuth software. It has no clock and does no I/O.
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
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/golang-jwt/jwt/v5"

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
