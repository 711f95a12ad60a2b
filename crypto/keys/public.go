// Package keys derives the published forms of an Ed25519 key (JWK, PEM, kid and fingerprint) and
// generates the bearer secrets of the service.
package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
)

// JWK is a public key as RFC 8037 section 2 writes it, with the members of RFC 7517 that a client
// needs to pick it from a set.
type JWK struct {
	Kty string `json:"kty"` // OKP
	Crv string `json:"crv"` // Ed25519
	X   string `json:"x"`   // the 32 bytes of the key, base64url without padding
	Kid string `json:"kid"`
	Alg string `json:"alg"` // EdDSA
	Use string `json:"use"` // sig
}

// Public is an Ed25519 public key in every form that the service publishes.
type Public struct {
	Key         ed25519.PublicKey
	KID         string // first 16 hex characters of SHA-256 of the SPKI DER
	Fingerprint string // SHA256:<base64url without padding> of SHA-256 of the SPKI DER
	PEM         string // SPKI PEM, ends in a newline
	JWK         JWK
}

// Describe derives all published forms of key, which must be 32 bytes long. The kid and the
// fingerprint depend on nothing but the key, so they are the same after every restart.
func Describe(key ed25519.PublicKey) Public {
	if len(key) != ed25519.PublicKeySize {
		panic(fmt.Sprintf("keys: an Ed25519 public key of %d bytes", len(key)))
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic("keys: " + err.Error()) // cannot be, for a key of the right length
	}
	sum := sha256.Sum256(der)
	kid := hex.EncodeToString(sum[:8])
	return Public{
		Key:         key,
		KID:         kid,
		Fingerprint: "SHA256:" + base64.RawURLEncoding.EncodeToString(sum[:]),
		PEM:         string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})),
		JWK: JWK{
			Kty: "OKP",
			Crv: "Ed25519",
			X:   base64.RawURLEncoding.EncodeToString(key),
			Kid: kid,
			Alg: "EdDSA",
			Use: "sig",
		},
	}
}
